//! Every known execution that breaks a literal reading of the papers is a test by its number, and has its row in the
//! front page of this crate.

use std::collections::BTreeSet;
use std::path::Path;

/// The number known before the program was tested by adversarial runs; later ones are
/// added one by one.
const KNOWN_FIRST: u64 = 39;

/// The numbers in the names of the tests of a folder and its subfolders.
fn played(folder: &Path, numbers: &mut BTreeSet<u64>) {
    for entry in std::fs::read_dir(folder).expect("the sources are here") {
        let path = entry.expect("the sources are here").path();
        if path.is_dir() {
            played(&path, numbers);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(path).expect("sources are text");
            let mut lines = text.lines().map(str::trim).peekable();
            while let Some(line) = lines.next() {
                let name = lines
                    .peek()
                    .filter(|_| line == "#[test]" || line.starts_with("#[tokio::test"));
                numbers.extend(name.into_iter().flat_map(|name| numbers_of(name)));
            }
        }
    }
}

/// `fn counterexample_21_33_a_late_proposal` is 21 and 33.
fn numbers_of(line: &str) -> Vec<u64> {
    let words = line.split_once("fn counterexample").map(|(_, rest)| rest);
    let words = words.unwrap_or_default().split('_').skip(1);
    words.map_while(|word| word.parse().ok()).collect()
}

/// The numbers in the first column of the table.
fn in_the_table() -> BTreeSet<u64> {
    let rows = include_str!("../src/lib.rs").lines();
    let rows = rows.filter_map(|line| line.strip_prefix("//! | "));
    let first = rows.filter_map(|row| row.split(" | ").next());
    first
        .flat_map(|column| column.split(", ").filter_map(|number| number.parse().ok()))
        .collect()
}

#[test]
fn every_known_execution_is_played_and_has_its_row() {
    let first: BTreeSet<u64> = (1..=KNOWN_FIRST).collect();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut numbers = BTreeSet::new();
    played(crates, &mut numbers);
    assert!(numbers.is_superset(&first), "{numbers:?}");
    assert_eq!(in_the_table(), numbers);
}
