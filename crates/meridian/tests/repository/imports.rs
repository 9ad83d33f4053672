//! Which files of a crate import from which: read from the text, as far as rustfmt leaves it in one form.
//!
//! A name that a module passes on (`pub use`) counts as imported from where it stands. Tests are left out.
//!
//! What must never enter: which imports are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::repository::below;

/// A module, or a path, by its names from the root of the crate on.
type Names = Vec<String>;

/// The modules of a crate, with their code.
struct Modules {
    code: BTreeMap<Names, String>,
    /// What modules pass on: the module and the name, and where that stands.
    passed_on: BTreeMap<(Names, String), Names>,
}

/// The imports of each module of the crate whose sources lie in this folder, as `folder::module`.
pub fn imports(sources: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let modules = Modules::read(sources);
    let named = |names: &Names| names.join("::");
    let imports = modules.code.keys().map(|module| {
        let mut imported = modules.imported_by(module);
        imported.remove(module);
        (named(module), imported.iter().map(named).collect())
    });
    imports.collect()
}

/// The code of each module of the crate whose sources lie in this folder, without comments and tests.
pub fn code(sources: &Path) -> BTreeMap<String, String> {
    let code = Modules::read(sources).code.into_iter();
    code.map(|(names, code)| (names.join("::"), code)).collect()
}

/// The modules that import from each other, directly or by way of others; each with those that it reaches of them.
pub fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<(&str, &str)> {
    let reached = |from: &str| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for imported in imports.get(module).into_iter().flatten() {
                if reached.insert(imported.as_str()) {
                    next.push(imported);
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&str, _> = imports
        .keys()
        .map(|from| (&**from, reached(from)))
        .collect();
    let pairs = reached.iter().flat_map(|(from, to)| {
        let to = to.iter().filter(|to| reached[**to].contains(from));
        to.map(|to| (*from, *to))
    });
    pairs.filter(|(from, to)| from < to).collect()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl Modules {
    fn read(sources: &Path) -> Modules {
        let mut code = BTreeMap::new();
        let mut tests: Vec<Names> = Vec::new();
        for path in below(sources).into_iter().filter(|path| path.is_file()) {
            let place = path.strip_prefix(sources).unwrap().with_extension("");
            let mut module: Names = place
                .iter()
                .map(|name| name.to_str().unwrap().to_owned())
                .collect();
            if ["mod", "lib", "main"].contains(&&**module.last().unwrap()) {
                module.pop();
            }
            let text = fs::read_to_string(&path).unwrap();
            let (text, its_tests) = without_tests(&text);
            tests.extend(
                its_tests
                    .into_iter()
                    .map(|name| [&module[..], &[name]].concat()),
            );
            code.insert(module, text);
        }
        code.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let mut modules = Modules {
            code,
            passed_on: BTreeMap::new(),
        };
        // A name may be passed on twice.
        for _ in 0..2 {
            modules.passed_on = modules.pass_on();
        }
        modules
    }

    fn pass_on(&self) -> BTreeMap<(Names, String), Names> {
        let mut passed_on = BTreeMap::new();
        for (module, code) in &self.code {
            for (is_passed_on, path) in uses(code) {
                let name = path.last().unwrap().clone();
                let place = self.place(module, &path).filter(|place| place != module);
                if let (true, Some(place)) = (is_passed_on, place) {
                    passed_on.insert((module.clone(), name), place);
                }
            }
        }
        passed_on
    }

    /// The module in which something stands that a module names by a path; none for other crates.
    fn place(&self, module: &Names, path: &[String]) -> Option<Names> {
        let (mut place, mut path) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (module.clone(), &path[1..]),
            "super" => (module[..module.len().checked_sub(1)?].to_vec(), &path[1..]),
            first
                if self
                    .code
                    .contains_key(&[&module[..], &[first.to_owned()]].concat()) =>
            {
                (module.clone(), path)
            }
            _ => return None,
        };
        while let Some((first, rest)) = path.split_first() {
            let inner = [&place[..], std::slice::from_ref(first)].concat();
            if !self.code.contains_key(&inner) {
                let passed_on = self.passed_on.get(&(place.clone(), first.clone()));
                return Some(passed_on.cloned().unwrap_or(place));
            }
            (place, path) = (inner, rest);
        }
        Some(place)
    }

    fn imported_by(&self, module: &Names) -> BTreeSet<Names> {
        let code = &self.code[module];
        let mut imported = BTreeSet::new();
        let mut known: BTreeMap<String, Names> = BTreeMap::new();
        for (is_passed_on, mut path) in uses(code) {
            let name = path.last().unwrap().clone();
            if name == "self" {
                path.pop();
            }
            let Some(place) = self.place(module, &path) else {
                continue;
            };
            // A module is known by its last name, and what is taken from it stands in the code.
            match place.last() == path.last() {
                true => drop(known.insert(path.last().unwrap().clone(), place)),
                false if !is_passed_on => drop(imported.insert(place)),
                false => {}
            }
        }
        for path in paths(code) {
            let place = match known.get(&path[0]) {
                Some(known) => {
                    let from_root = [&["crate".to_owned()][..], known, &path[1..]].concat();
                    self.place(module, &from_root)
                }
                None => self.place(module, &path),
            };
            imported.extend(place);
        }
        imported
    }
}

/// The code of a file without comments and tests, and the names of its modules of tests.
fn without_tests(text: &str) -> (String, Vec<String>) {
    let (mut code, mut tests) = (String::new(), Vec::new());
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap());
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            code.push_str(line);
            code.push('\n');
            continue;
        }
        let item = lines.next().unwrap_or_default().trim().to_owned();
        let name = item
            .strip_prefix("mod ")
            .map(|name| name.trim_end_matches([';', '{', ' ']));
        tests.extend(name.map(str::to_owned));
        // Tests in the same file stand at its end.
        if item.ends_with('{') {
            break;
        }
    }
    (code, tests)
}

/// The paths that a file names with `use`, each whether it is passed on.
fn uses(code: &str) -> Vec<(bool, Names)> {
    let mut found = Vec::new();
    for statement in code.split(';') {
        let statement = statement.trim_start();
        let Some(at) = statement.find("use ").filter(|at| {
            let before = &statement[..*at];
            before.is_empty() || before.starts_with("pub") && !before.contains('\n')
        }) else {
            continue;
        };
        let tree = &statement[at + "use ".len()..];
        let (stem, leaves) = tree.split_once('{').unwrap_or((tree, ""));
        let leaves = leaves.trim_end().trim_end_matches('}');
        let leaves: Vec<&str> = leaves.split(',').map(str::trim).collect();
        let leaves = leaves
            .iter()
            .enumerate()
            .filter(|(at, leaf)| *at == 0 || !leaf.is_empty());
        for (_, leaf) in leaves {
            let path = format!("{stem}{leaf}");
            let path = path.split(" as ").next().unwrap();
            let names = path.split("::").map(|name| name.trim().to_owned());
            let names: Names = names.filter(|name| !name.is_empty()).collect();
            if !names.is_empty() {
                found.push((at > 0, names));
            }
        }
    }
    found
}

/// The paths in a file apart from those of `use`.
fn paths(code: &str) -> Vec<Names> {
    let used = |statement: &&str| {
        let statement = statement.trim_start();
        !(statement.starts_with("use ")
            || statement.starts_with("pub") && statement.contains(" use "))
    };
    let statements = code.split_inclusive(';').filter(used);
    let words = statements.flat_map(|statement| statement.split(|c| !is_of_name(c) && c != ':'));
    let paths = words.filter(|word| word.contains("::") && !word.starts_with(':'));
    let names = |path: &str| path.split("::").map(str::to_owned).collect();
    paths.map(names).collect()
}
