//! Finds the known word that a person probably meant.
//!
//! What must never enter: the meaning of the words.

/// The known word that is nearest to `word`, unless all are too different to be meant.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let tolerated = (word.chars().count() / 3).max(2);
    let by_distance = known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate));
    by_distance
        .filter(|(distance, _)| *distance <= tolerated)
        .min()
        .map(|(_, known)| known)
}

/// The number of characters to insert, remove or replace (Levenshtein's distance).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_changes() {
        for (from, to, changes) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("kitten", "sitting", 3),
            ("lisen", "listen", 1),
            ("export", "exprot", 2),
        ] {
            assert_eq!(distance(from, to), changes, "{from} {to}");
            assert_eq!(distance(to, from), changes, "{to} {from}");
        }
    }

    #[test]
    fn only_similar_words_are_offered() {
        let known = ["listen", "commit", "export"];
        assert_eq!(nearest("lisen", &known), Some("listen"));
        assert_eq!(nearest("exports", &known), Some("export"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest("x", &known), None);
    }
}
