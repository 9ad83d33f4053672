//! The documents name files, modules and chapters that exist, and commands that can be run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod repository;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use repository::{below, repository};

/// The repository's files and folders, relative to it.
fn tree() -> BTreeSet<String> {
    let (top, found) = (repository(), below(&repository()));
    let relative = |path: &PathBuf| path.strip_prefix(&top).unwrap().display().to_string();
    found.iter().map(relative).collect()
}

/// The pages, each with its place and text.
fn pages(tree: &BTreeSet<String>) -> Vec<(String, String)> {
    let pages: Vec<_> = tree
        .iter()
        // Pages in `crates` are parts of pages that are made of them.
        .filter(|path| path.ends_with(".md") && !path.starts_with("crates/"))
        .map(|path| {
            (
                path.clone(),
                fs::read_to_string(repository().join(path)).unwrap(),
            )
        })
        .collect();
    assert!(pages.len() > 20, "too few pages to be all");
    pages
}

/// What stands between single backticks on lines outside of blocks of code.
fn quoted(page: &str) -> Vec<&str> {
    let mut in_block = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    });
    lines
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// Whether a path of the tree ends like `named`, where `*` stands for anything within a name.
fn ends_somewhere(tree: &BTreeSet<String>, named: &str) -> bool {
    let named: Vec<&str> = named.trim_end_matches('/').split('/').rev().collect();
    tree.iter().any(|path| {
        let mut parts = path.split('/').rev();
        named.iter().all(|name| {
            parts.next().is_some_and(|part| match name.split_once('*') {
                None => part == *name,
                Some((before, behind)) => part.starts_with(before) && part.ends_with(behind),
            })
        })
    })
}

/// Whether `word` is meant to be a path of the repository.
fn is_path(word: &str) -> bool {
    const FOLDERS: &[&str] = &[
        "crates/",
        "docs/",
        "scripts/",
        "packaging/",
        "fuzz/",
        "src/",
        "tests/",
    ];
    let is_plain = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-/*".contains(c));
    let is_source = word.contains('/') && word.ends_with(".rs");
    is_plain && (is_source || FOLDERS.iter().any(|folder| word.starts_with(folder)))
}

/// Asserts that what pages quote exists: `exists` says of a word whether it does, and nothing of one that is about something else.
/// At least `least` have to be recognised.
fn assert_quoted(least: usize, exists: impl Fn(&BTreeSet<String>, &str) -> Option<bool>) {
    let tree = tree();
    let (mut seen, mut wrong) = (0, Vec::new());
    for (page, text) in pages(&tree) {
        for word in quoted(&text) {
            let exists = exists(&tree, word);
            seen += usize::from(exists.is_some());
            if exists == Some(false) {
                wrong.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(seen >= least, "only {seen} were recognised");
    assert!(wrong.is_empty(), "these do not exist: {wrong:#?}");
}

#[test]
fn paths_in_pages_exist() {
    assert_quoted(21, |tree, word| {
        let exists = || ends_somewhere(tree, word) || ends_somewhere(tree, &format!("{word}.rs"));
        is_path(word).then(exists)
    });
}

/// `a::b` of which `a` is a crate and `b` may be a module: the crate's folder, and `b`.
fn module<'w>(tree: &BTreeSet<String>, word: &'w str) -> Option<(String, &'w str)> {
    let mut parts = word.split("::");
    let (of, module) = (parts.next()?, parts.next()?);
    let is_module =
        module.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !module.is_empty();
    let folder = format!("crates/{}", of.replace('_', "-"));
    (is_module && tree.contains(&folder)).then_some((folder, module))
}

#[test]
fn modules_in_pages_exist() {
    assert_quoted(3, |tree, word| {
        let (folder, module) = module(tree, word)?;
        let places = [
            format!("{folder}/src/{module}.rs"),
            format!("{folder}/src/{module}"),
        ];
        Some(places.iter().any(|place| tree.contains(place)))
    });
}

/// The page on the architecture names modules without their crates, too, where it says in which layer they are.
#[test]
fn modules_of_the_architecture_exist() {
    // Two crates of an example, a keyword, and a function.
    let others = ["a", "b", "unsafe", "with_core"];
    let (tree, text) = (tree(), read("docs/architecture.md"));
    let is_name = |word: &&str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_' || c == ':';
        word.chars().all(is_part) && !others.contains(word)
    };
    let exists = |word: &str| {
        let below = word.replace("::", "/");
        let in_crate = word.split_once("::").map(|(of, module)| {
            let (of, module) = (of.replace('_', "-"), module.replace("::", "/"));
            format!("{of}/src/{module}")
        });
        [Some(below), in_crate].into_iter().flatten().any(|place| {
            ends_somewhere(&tree, &place) || ends_somewhere(&tree, &format!("{place}.rs"))
        })
    };
    let named: BTreeSet<&str> = quoted(&text).into_iter().filter(is_name).collect();
    assert!(named.len() > 60, "only {} were recognised", named.len());
    let wrong: Vec<_> = named.into_iter().filter(|word| !exists(word)).collect();
    assert!(wrong.is_empty(), "these do not exist: {wrong:#?}");
}

/// The page of a folder of layers says what each of its modules is for: single words between backticks are their names, or those of
/// modules above, layers and crates. Some kept the names that modules had before.
#[test]
fn modules_on_the_pages_of_layers_exist() {
    let top = repository().join("crates/replica/src");
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in below(&top).iter().filter(|path| path.ends_with("mod.rs")) {
        let (folder, text) = (page.parent().unwrap(), fs::read_to_string(page).unwrap());
        let lines = text.lines().filter_map(|line| line.strip_prefix("//!"));
        let lines: Vec<&str> = lines.collect();
        let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        for word in quoted(&lines.join("\n")).into_iter().filter(is_name) {
            let crates = repository().join("crates");
            let exists = [folder, &top, &crates].iter().any(|folder| {
                folder.join(word).is_dir() || folder.join(format!("{word}.rs")).is_file()
            });
            seen += 1;
            if !exists {
                wrong.push(format!("{}: {word}", page.display()));
            }
        }
    }
    assert!(seen > 40, "only {seen} were recognised");
    assert!(wrong.is_empty(), "these do not exist: {wrong:#?}");
}

/// The anchors of a page: those of its headings, as hosts of repositories make them, and those that it sets itself.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    let set = page.split("<a id=\"").skip(1);
    let set = set.filter_map(|rest| rest.split('"').next().map(str::to_owned));
    headings.map(anchor).chain(set).collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let tree = tree();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (page, text) in pages(&tree) {
        let folder = repository().join(&page);
        let folder = folder.parent().unwrap();
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://") && !target.contains(' ')) {
            seen += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let place = match path {
                "" => repository().join(&page),
                path => folder.join(path),
            };
            let leads = match (place.exists(), anchor) {
                (exists, "") => exists,
                (false, _) => false,
                (true, anchor) => anchors(&fs::read_to_string(&place).unwrap()).contains(anchor),
            };
            if !leads {
                wrong.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(seen > 50, "only {seen} links were recognised");
    assert!(wrong.is_empty(), "these lead nowhere: {wrong:#?}");
}

/// Each target of `make` is a script that can be run.
#[test]
fn targets_of_make_are_scripts_that_can_be_run() {
    let makefile = read("Makefile");
    let commands = makefile.lines().filter_map(|line| {
        let command = line.strip_prefix("\t@scripts/")?;
        let program = command.split_whitespace().next()?;
        Some(format!("scripts/{program}"))
    });
    let commands: BTreeSet<String> = commands.collect();
    assert!(commands.len() > 15, "too few to be all: {commands:?}");
    let cannot_run = |path: &String| {
        let file = fs::metadata(repository().join(path));
        !file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 == 0o111)
    };
    let idle: Vec<&String> = commands.iter().filter(|path| cannot_run(path)).collect();
    assert!(idle.is_empty(), "nobody can run these: {idle:?}");
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

/// The names that begin the rows of the manual's table whose head is `head`.
fn table(manual: &str, head: &str) -> BTreeSet<String> {
    let rows = manual.split(head).nth(1).expect("the manual has the table");
    let rows = rows
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .skip(1);
    let names = rows
        .take_while(|line| line.starts_with('|'))
        .flat_map(|row| {
            let first = row.split('|').nth(1).unwrap();
            first
                .split('`')
                .skip(1)
                .step_by(2)
                .map(|name| name.split('{').next().unwrap().to_owned())
        });
    names.collect()
}

#[test]
fn each_alarm_has_an_alerting_rule() {
    let told = table(&read("docs/operating.md"), "| alarm | what it means");
    let rules = read("packaging/prometheus/meridian-alerts.yml");
    let ruled = rules
        .split("alarm=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().to_owned());
    assert_eq!(ruled.collect::<BTreeSet<_>>(), told);
    let known = read("crates/server/src/status/alarms.rs");
    let missing = told
        .iter()
        .filter(|name| !known.contains(&format!("\"{name}\"")));
    assert_eq!(
        missing.collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "no server raises these"
    );
}

#[test]
fn each_alerting_rule_names_a_place_of_the_manual() {
    let rules = read("packaging/prometheus/meridian-alerts.yml");
    let places = rules
        .lines()
        .filter_map(|line| line.split_once("runbook: "));
    let mut seen = 0;
    for (_, place) in places {
        let (page, anchor) = place.split_once('#').expect("a page and a place in it");
        assert!(anchors(&read(page)).contains(anchor), "{place}");
        seen += 1;
    }
    assert_eq!(seen, rules.matches("- alert:").count());
}

#[test]
fn rules_and_dashboard_ask_for_metrics_that_exist() {
    let told = table(&read("docs/operating.md"), "| metric | meaning");
    for path in [
        "packaging/prometheus/meridian-alerts.yml",
        "packaging/grafana/meridian.json",
    ] {
        let text = read(path);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text
            .split(|c: char| !is_name(c))
            .filter(|word| word.starts_with("meridian_"));
        for word in words {
            let name = word.trim_end_matches("_bucket");
            assert!(
                told.contains(name),
                "{path} asks for {word}, which the manual does not know"
            );
        }
    }
}
