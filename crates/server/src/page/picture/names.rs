//! Names of files for people. A name is any bytes but a slash and a zero (RFC 8881, section 1.8), and anybody who may make a
//! file chooses it.
//!
//! What must never enter: escaping for HTML, which the templates do.

/// The text with what is invisible, or changes the order of what is around it, shown as its number.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || is_formatting(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Whether a letter only changes how others look (Unicode's category Cf, as far as it is in use for that).
fn is_formatting(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text as one word of a shell.
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
