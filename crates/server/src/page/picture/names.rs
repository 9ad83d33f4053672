//! Names of files for people. A name may contain any bytes except a slash and a zero (RFC 8881, section 1.8). Any user
//! who can create a file chooses it.
//!
//! What must never enter: escaping for HTML, which the templates do.

use vfs::ShownText;

/// The text with a number in place of each character that is invisible or changes the order of the text.
pub(super) fn visible(text: &str) -> String {
    ShownText(text).to_string()
}

/// A text quoted as one word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible("/häuser/a b"), "/häuser/a b");
        assert_eq!(visible("a\u{202e}b\n\u{1b}"), "a\\u{202e}b\\u{a}\\u{1b}");
    }

    #[test]
    fn a_shell_reads_one_word() {
        for (word, told) in [
            ("/var/lib/meridian", "/var/lib/meridian"),
            ("/a b", "'/a b'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), told);
        }
    }
}
