//! Names, texts from other programs, and counted things, for a person's screen or log.
//!
//! A name may contain any bytes except a slash and a zero, and any user who may create a file chooses it. Unescaped, names can forge
//! lines and send commands to the terminal; Unicode's formatting characters reorder the text around them.
//!
//! What must never enter: escaping for HTML, for JSON or for a shell.

use std::fmt::{self, Write};

/// Bytes that are mostly text, such as a name or a path, in a form that is different for different bytes.
///
/// Visible text stays. A backslash becomes two, a byte that is not UTF-8 becomes `\xff`, an invisible character becomes
/// `\u{1b}`.
#[derive(Clone, Copy, Debug)]
pub struct ShownBytes<'b>(pub &'b [u8]);

/// Text from another program, such as a reason or an error, as one line.
///
/// An invisible character, including an end of line, becomes `\u{a}`. Text in this form stays the same if it is converted again.
#[derive(Clone, Copy, Debug)]
pub struct ShownText<'t>(pub &'t str);

/// Whether a character is visible as itself: not a control, formatting or unassigned character, and no space except the plain one.
#[must_use]
pub fn is_visible(letter: char) -> bool {
    if letter.is_ascii() {
        return !letter.is_ascii_control();
    }
    // The standard library has the Unicode categories, but offers them only through this function. The character is put after a letter,
    // because one that combines with it is visible there.
    let mut both = String::from("a");
    both.push(letter);
    both.escape_debug().eq(both.chars())
}

fn show(f: &mut fmt::Formatter<'_>, letter: char) -> fmt::Result {
    match is_visible(letter) {
        true => f.write_char(letter),
        false => write!(f, "{}", letter.escape_unicode()),
    }
}

impl fmt::Display for ShownBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter {
                    '\\' => f.write_str("\\\\")?,
                    letter => show(f, letter)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// A number of things, with the singular of their name: `1 file`, `2 files`.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'n>(pub u64, pub &'n str);

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted(count, name) = self;
        write!(f, "{count} ")?;
        match (count, name.strip_suffix('y')) {
            (1, _) => f.write_str(name),
            (_, Some(stem)) => write!(f, "{stem}ies"),
            (_, None) => write!(f, "{name}s"),
        }
    }
}

impl fmt::Display for ShownText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| show(f, letter))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_can_be_seen_stays_and_the_rest_is_told_by_its_number() {
        for (bytes, shown) in [
            (&b"/plain name's \"1\""[..], "/plain name's \"1\""),
            (
                "/häuser/日本/e\u{301}/🙂".as_bytes(),
                "/häuser/日本/e\u{301}/🙂",
            ),
            (
                b"x\n  ALARM \x1b[2J\x7f",
                "x\\u{a}  ALARM \\u{1b}[2J\\u{7f}",
            ),
            (
                "\u{9b}\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}".as_bytes(),
                "\\u{9b}\\u{202e}\\u{2066}\\u{200b}\\u{feff}\\u{e0041}",
            ),
            (
                "\u{2028}\u{a0}\u{ad}\u{61c}".as_bytes(),
                "\\u{2028}\\u{a0}\\u{ad}\\u{61c}",
            ),
            (b"\xff\xc3\\", "\\xff\\xc3\\\\"),
        ] {
            assert_eq!(ShownBytes(bytes).to_string(), shown);
        }
        assert_eq!(
            ShownText("a\\b\n\u{202e}").to_string(),
            "a\\b\\u{a}\\u{202e}"
        );
    }

    #[test]
    fn one_thing_is_not_several() {
        let counted = |count, name| Counted(count, name).to_string();
        assert_eq!(counted(0, "file"), "0 files");
        assert_eq!(counted(1, "file"), "1 file");
        assert_eq!(counted(2, "directory"), "2 directories");
        assert_eq!(counted(1, "entry"), "1 entry");
    }

    #[test]
    fn different_bytes_are_shown_differently_and_text_once_shown_stays() {
        let letters = [
            &b"\\"[..],
            b"x",
            b"u",
            b"f",
            b"\xff",
            b"\n",
            b"{a}",
            "\u{ff}".as_bytes(),
        ];
        let mut shown = HashSet::new();
        let mut words = 0;
        for one in letters {
            for two in letters {
                for three in letters {
                    let word = ShownBytes(&[one, two, three].concat()).to_string();
                    assert_eq!(ShownText(&word).to_string(), word);
                    words += 1;
                    shown.insert(word);
                }
            }
        }
        assert_eq!(shown.len(), words);
    }
}
