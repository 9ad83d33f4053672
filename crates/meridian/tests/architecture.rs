//! The repository keeps to its own pages: who may know whom, and how a file begins and ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "repository/imports.rs"]
mod imports;
mod repository;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use repository::{below, repository};
use serde_json::Value;

/// Beyond this, a file usually has two subjects.
const FILE_LINES_MAX: usize = 600;

/// An arrow from the crate that knows to the crate that is known.
type Arrow = (String, String);

/// The arrows that `docs/architecture.md` draws in its block named `arrows`.
fn drawn() -> BTreeSet<Arrow> {
    let page = fs::read_to_string(repository().join("docs/architecture.md")).unwrap();
    let block = page
        .split("```arrows\n")
        .nth(1)
        .expect("the page has a block named arrows");
    let lines = block
        .split("```")
        .next()
        .unwrap()
        .lines()
        .filter(|line| !line.trim().is_empty());
    let arrow = |line: &str| {
        let (from, to) = line
            .split_once(" -> ")
            .unwrap_or_else(|| panic!("no arrow: {line}"));
        (from.trim().to_owned(), to.trim().to_owned())
    };
    lines.map(arrow).collect()
}

/// What cargo says of the crates of the workspace.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let output = cargo.current_dir(repository()).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn name_of(package: &Value) -> String {
    package["name"].as_str().unwrap().to_owned()
}

/// What a package depends on, but for its tests.
fn dependencies(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().unwrap().iter();
    let used = all.filter(|dependency| dependency["kind"] != "dev");
    used.map(name_of).collect()
}

/// The dependencies among the crates of the workspace, those of tests alone left out.
fn built() -> BTreeSet<Arrow> {
    let packages = packages();
    let crates: BTreeSet<String> = packages.iter().map(name_of).collect();
    let arrows = packages.iter().flat_map(|package| {
        let known = dependencies(package).into_iter();
        let known = known.filter(|to| crates.contains(to));
        known.map(|to| (name_of(package), to))
    });
    arrows.collect()
}

/// The fuzz targets are no part of the workspace: cargo locks what they need in a file that a build of the workspace never looks at, and
/// refuses to build them when a crate depends on more by then.
#[test]
fn what_is_locked_for_the_fuzz_targets_is_what_crates_depend_on() {
    let lock = fs::read_to_string(repository().join("fuzz/Cargo.lock")).unwrap();
    let (mut seen, mut wrong) = (0, Vec::new());
    for package in packages() {
        let named = format!("name = \"{}\"\n", name_of(&package));
        let mut locked = lock.split("[[package]]");
        let Some(locked) =
            locked.find(|entry| entry.contains(&named) && !entry.contains("source = "))
        else {
            continue;
        };
        let lines = locked.lines().filter_map(|line| line.strip_prefix(" \""));
        let locked = lines.map(|line| line.split(['"', ' ']).next().unwrap().to_owned());
        seen += 1;
        if locked.collect::<BTreeSet<_>>() != dependencies(&package) {
            wrong.push(name_of(&package));
        }
    }
    assert!(seen > 10, "only {seen} were recognised");
    assert!(
        wrong.is_empty(),
        "`cargo update --workspace --manifest-path fuzz/Cargo.toml` locks what these need: {wrong:?}"
    );
}

#[test]
fn crates_know_only_whom_the_page_lets_them_know() {
    let (drawn, built) = (drawn(), built());
    assert!(
        built.len() > 5,
        "too few dependencies to be true: {built:?}"
    );
    let missing: Vec<_> = built.difference(&drawn).collect();
    assert!(
        missing.is_empty(),
        "these dependencies are not drawn in docs/architecture.md; remove them, or draw and justify them: {missing:?}"
    );
    let idle: Vec<_> = drawn.difference(&built).collect();
    assert!(
        idle.is_empty(),
        "docs/architecture.md draws arrows that no Cargo.toml has; remove them there: {idle:?}"
    );
}

/// The layers of `replica`, the lowest first, as `docs/architecture.md` draws them in its block named `layers`.
fn layers() -> Vec<String> {
    let page = fs::read_to_string(repository().join("docs/architecture.md")).unwrap();
    let block = page
        .split("```layers\n")
        .nth(1)
        .expect("the page has a block named layers");
    let lines = block.split("```").next().unwrap().lines();
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// The modules of its own crate that a source names, as `folder::module`, or `module` of files beside the folders.
fn named_modules(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text
        .lines()
        .map(|line| line.split("//").next().unwrap())
        .collect();
    let code = code.join("\n");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = code.match_indices("crate::").filter_map(|(at, _)| {
        if code[..at].ends_with(is_name) {
            return None;
        }
        let path = &code[at + "crate::".len()..];
        let mut names = path.split("::").map(|part| {
            let end = part.find(|c| !is_name(c)).unwrap_or(part.len());
            (&part[..end], end == part.len())
        });
        let (first, goes_on) = names.next()?;
        let second = names.next().filter(|(name, _)| goes_on && !name.is_empty());
        Some(second.map_or(first.to_owned(), |(second, _)| format!("{first}::{second}")))
    });
    named.collect()
}

#[test]
fn modules_of_a_layer_know_only_layers_below() {
    let (layers, top) = (layers(), repository().join("crates/replica/src"));
    // Files beside the folders put the layers together; they stand above all of them.
    let height = |name: &str| {
        let found = layers.iter().position(|layer| layer == name);
        found.unwrap_or(layers.len())
    };
    let mut upward = BTreeSet::new();
    let mut seen = 0;
    for path in below(&top).into_iter().filter(|path| !path.is_dir()) {
        let text = fs::read_to_string(&path).unwrap();
        let place = path.strip_prefix(&top).unwrap().display().to_string();
        let folder = place.split_once('/').map(|(folder, _)| folder);
        if let Some(folder) = folder {
            assert!(
                layers.iter().any(|layer| layer == folder),
                "docs/architecture.md draws no layer of replica named {folder}"
            );
        }
        let hides = ["crate::{", "super::super::"].iter();
        let hides: Vec<_> = hides.filter(|sign| text.contains(**sign)).collect();
        assert!(
            hides.is_empty(),
            "{place} has {hides:?}; name each module from `crate` on, so that its layer can be read"
        );
        let own = folder.map_or(layers.len(), height);
        for named in named_modules(&text) {
            seen += 1;
            if height(named.split("::").next().unwrap()) > own {
                upward.insert((place.clone(), named));
            }
        }
    }
    assert!(seen > 300, "too few imports to be all: {seen}");
    assert!(
        upward.is_empty(),
        "these import from a layer above their own; move what they need down, or hand it to them: {upward:#?}"
    );
}

/// Crates in which some files import from each other, most of them since methods of one type stand in a file for each subject.
const WITH_CIRCLES: [&str; 13] = [
    "control",
    "homes",
    "metadata-server",
    "nfs4-server",
    "peer",
    "pool",
    "server",
    "sim",
    "store",
    "striping",
    "testbed",
    "view",
    "xdr",
];

/// What a file is for can be said without another one that is for the same.
#[test]
fn no_two_files_of_a_crate_import_from_each_other() {
    let (mut number, mut circles, mut opened) = (0, Vec::new(), Vec::new());
    for package in packages() {
        let name = name_of(&package);
        let imports = imports::imports(&repository().join(format!("crates/{name}/src")));
        number += imports.values().map(BTreeSet::len).sum::<usize>();
        let found = imports::circles(&imports);
        match WITH_CIRCLES.contains(&&*name) {
            true if found.is_empty() => opened.push(name),
            true => {}
            false => circles.extend(
                found
                    .iter()
                    .map(|(one, other)| format!("{name}: {one}, {other}")),
            ),
        }
    }
    assert!(number > 2000, "too few imports to be all: {number}");
    assert!(
        circles.is_empty(),
        "these reach each other; move what both need below them: {circles:#?}"
    );
    assert!(
        opened.is_empty(),
        "no files of these import from each other any more; take them off the list: {opened:?}"
    );
}

/// What stands in a file of `replica` beside its place, as `folder/file.rs`.
fn replica_sources() -> Vec<(String, String)> {
    let top = repository().join("crates/replica/src");
    let files = below(&top).into_iter().filter(|path| !path.is_dir());
    let read = |path: PathBuf| {
        let place = path.strip_prefix(&top).unwrap().display().to_string();
        (place, fs::read_to_string(&path).unwrap())
    };
    files.map(read).collect()
}

/// A lock of the standard library has no place in the order of locks.
#[test]
fn locks_of_a_replica_have_a_place_in_their_order() {
    let orderless = replica_sources().into_iter().filter(|(_, text)| {
        let mut code = text.lines().map(|line| line.split("//").next().unwrap());
        code.any(|line| {
            let line = line.replace("tokio::sync::Mutex", "");
            line.contains("Mutex") || line.contains("RwLock")
        })
    });
    let places: Vec<String> = orderless.map(|(place, _)| place).collect();
    assert_eq!(places, ["state/locks.rs"], "take a lock of `state::locks`");
}

/// What a type does stands in its own layer; layers above have functions that take it.
#[test]
fn types_of_a_layer_are_implemented_in_it() {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named_after = |line: &str, word: &str| {
        let (_, rest) = line.split_once(word)?;
        let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
        Some(name).filter(|name| !name.is_empty())
    };
    let layer = |place: &str| {
        let folder = place.split_once('/').map(|(folder, _)| folder);
        folder.unwrap_or_default().to_owned()
    };
    let (mut defined, mut implemented) = (BTreeSet::new(), BTreeSet::new());
    for (place, text) in replica_sources() {
        for line in text.lines() {
            for word in ["struct ", "enum "] {
                let name = line.starts_with("pub").then(|| named_after(line, word));
                defined.extend(name.flatten().map(|name| (name, layer(&place))));
            }
            let is_trait = line.contains(" for ");
            let name =
                named_after(line, "impl ").filter(|_| line.starts_with("impl ") && !is_trait);
            implemented.extend(name.map(|name| (name, layer(&place), place.clone())));
        }
    }
    assert!(implemented.len() > 50, "too few to be all: {implemented:?}");
    let is_elsewhere = |(name, own, _): &(String, String, String)| {
        let has = |of: &(String, String)| of == &(name.clone(), own.clone());
        !defined.iter().any(has) && defined.iter().any(|(of, _)| of == name)
    };
    implemented.retain(is_elsewhere);
    assert!(
        implemented.is_empty(),
        "make these functions that take the type, or move them to its layer: {implemented:#?}"
    );
}

/// Every Rust file of the repository, what Cargo has built left out.
fn sources() -> Vec<PathBuf> {
    let folders = ["crates", "fuzz"].map(|name| repository().join(name));
    let mut sources: Vec<PathBuf> = folders.iter().flat_map(|folder| below(folder)).collect();
    sources.retain(|path| path.extension().is_some_and(|ending| ending == "rs"));
    assert!(sources.len() > 100, "too few files to be all: {sources:?}");
    sources
}

/// The sources that break a rule, each with what is wrong.
fn breaches(rule: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let breach = |path: PathBuf| {
        let wrong = rule(&fs::read_to_string(&path).unwrap())?;
        Some(format!("{} {wrong}", path.display()))
    };
    sources().into_iter().filter_map(breach).collect()
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent = breaches(|text| {
        let is_told = text.starts_with("//!");
        (!is_told).then(|| "has no front page (`//!`)".to_owned())
    });
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn every_file_has_one_subject() {
    let long = breaches(|text| {
        let lines = text.lines().count();
        (lines > FILE_LINES_MAX).then(|| format!("has {lines} lines; split it by subject"))
    });
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn nothing_is_left_half_done() {
    // Put together here, so that this file does not accuse itself.
    let signs = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["to", "do!("],
        ["unimpl", "emented!("],
        ["#[ig", "nore"],
    ];
    let signs = signs.map(|parts| parts.concat());
    let unfinished = breaches(|text| {
        let sign = signs.iter().find(|sign| text.contains(*sign))?;
        Some(format!("contains `{sign}`"))
    });
    assert!(unfinished.is_empty(), "{unfinished:#?}");
}

/// Most crates name their programs of tests, so that not every file is one; a file that nobody names would never run.
#[test]
fn every_file_of_tests_belongs_to_a_program() {
    let mut seen = 0;
    let mut left = Vec::new();
    for package in fs::read_dir(repository().join("crates")).unwrap() {
        let package = package.unwrap().path();
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        let tests = package.join("tests");
        if !tests.exists() || !manifest.contains("\nautotests = false\n") {
            continue;
        }
        let mut files = below(&tests);
        files.retain(|path| path.extension().is_some_and(|ending| ending == "rs"));
        let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
        let texts: Vec<String> = texts.collect();
        let lines: BTreeSet<&str> = texts.iter().flat_map(|text| text.lines()).collect();
        for path in &files {
            let place = path.strip_prefix(&package).unwrap().display();
            let own = path.with_extension("");
            let module = match own.ends_with("mod") {
                true => own.parent().unwrap(),
                false => &own,
            };
            let name = module.file_name().unwrap().to_str().unwrap();
            let file = path.file_name().unwrap().to_str().unwrap();
            let naming = [
                format!("mod {name};"),
                format!("pub mod {name};"),
                format!("#[path = \"{file}\"]"),
            ];
            let is_module = naming.iter().any(|line| lines.contains(&**line));
            seen += 1;
            if !is_module && !manifest.contains(&format!("\npath = \"{place}\"\n")) {
                left.push(path.clone());
            }
        }
    }
    assert!(seen > 100, "too few files to be all: {seen}");
    assert!(
        left.is_empty(),
        "name these in the `tests/main.rs` of their crate: {left:#?}"
    );
}

/// Log lines, and errors, which get there as well, are read by people who know no Rust.
#[test]
fn no_log_line_and_no_error_shows_a_form_of_rust() {
    let (mut lines, mut errors) = (0, 0);
    let mut wrong = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        for error in text.split("#[error(").skip(1) {
            errors += 1;
            let error = error.split(")]").next().unwrap();
            if error.contains(":?}") {
                wrong.push(format!("{}: {error}", path.display()));
            }
        }
        for level in ["trace", "debug", "info", "warn", "error"] {
            for line in text.split(&format!("tracing::{level}!(")).skip(1) {
                lines += 1;
                let line = line.split(");").next().unwrap();
                let fields = line.split(',').map(|field| {
                    let field = field.trim();
                    field.split_once(" = ").map_or(field, |(_, value)| value)
                });
                let mut fields = fields.filter(|field| !field.starts_with('"'));
                if fields.any(|field| field.starts_with('?')) || line.contains(":?}") {
                    wrong.push(format!("{}: {line}", path.display()));
                }
            }
        }
    }
    assert!(
        lines > 100 && errors > 100,
        "only {lines} lines and {errors} errors were recognised"
    );
    assert!(
        wrong.is_empty(),
        "show these as people read them, with `%` in a log line: {wrong:#?}"
    );
}

/// Modules of the server that write a form of Rust, none of which is a sentence.
const FORMS_OF_RUST: [&str; 4] = [
    // The message of a log line, which is text.
    "meridian::logging",
    // `Debug` itself.
    "nfs4::basics",
    // Labels of metrics: names of operations and of statuses.
    "server::metrics::exposition",
    // A text with quotes around it.
    "store::recovered::entry",
];

/// What the server, and its commands, tell people besides.
#[test]
fn nothing_that_people_read_shows_a_form_of_rust() {
    let arrows = built();
    let mut crates = BTreeSet::from(["meridian".to_owned()]);
    while let Some((_, to)) = arrows
        .iter()
        .find(|(from, to)| crates.contains(from) && !crates.contains(to))
    {
        crates.insert(to.clone());
    }
    assert!(crates.len() > 15, "too few crates to be all: {crates:?}");
    let mut found = BTreeSet::new();
    for name in crates {
        for (module, code) in imports::code(&repository().join(format!("crates/{name}/src"))) {
            let mut lines = code.lines().filter(|line| !line.contains("assert"));
            if lines.any(|line| line.contains(":?}") || line.contains(":#?}")) {
                found.insert(format!("{name}::{module}"));
            }
        }
    }
    let known = FORMS_OF_RUST.map(str::to_owned).into();
    assert_eq!(
        found, known,
        "show these as people read them, or say here why not"
    );
}
