//! The output of the program, on standard output and standard error.
//!
//! All output goes through here: no text can control a terminal, and a closed output never makes the program panic. In
//! that case a command that only prints ends, see `main`; a command that changes something continues silently.
//!
//! What must never enter: the texts.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;
use server::{is_visible, plain};

/// Prints a text with a line end.
///
/// # Errors
/// When it cannot be written, although the output is open.
pub(crate) fn say(text: impl Display) -> io::Result<()> {
    write(&mut io::stdout().lock(), &(shown(&text.to_string()) + "\n"))
}

/// Prints a question without a line end.
///
/// # Errors
/// When it cannot be written, although the output is open.
pub(crate) fn ask(text: impl Display) -> io::Result<()> {
    write(&mut io::stdout().lock(), &shown(&text.to_string()))
}

/// Prints a text with a line end on standard error. A failure is ignored.
pub(crate) fn remark(text: impl Display) {
    let _ = write(&mut io::stderr().lock(), &(shown(&text.to_string()) + "\n"));
}

/// Prints a value as JSON.
///
/// # Errors
/// When it cannot be written, although the output is open.
pub(crate) fn say_json(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    write(&mut io::stdout().lock(), &(shown_json(&text) + "\n"))
}

fn write(output: &mut impl Write, text: &str) -> io::Result<()> {
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A text without invisible characters except line ends, and with errors in words.
fn shown(text: &str) -> String {
    let text = plain(text);
    let lines = text
        .split('\n')
        .map(|line| server::ShownText(line).to_string());
    lines.collect::<Vec<String>>().join("\n")
}

/// The same for JSON, in its own notation: invisible characters can only be in a string there.
fn shown_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut units = [0; 2];
    for letter in text.chars() {
        if letter == '\n' || is_visible(letter) {
            shown.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut units) {
            shown += &format!("\\u{unit:04x}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_and_commands_do_not() {
        assert_eq!(
            shown("one\ntwo \u{1b}[2J\u{202e}\r\n"),
            "one\ntwo \\u{1b}[2J\\u{202e}\\u{d}\n"
        );
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = "a\u{7f}\u{9b}\u{202e}\u{e0041}\n\u{1b}ä";
        let text = shown_json(&serde_json::to_string(value).unwrap());
        assert!(text.chars().all(is_visible), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
    }

    #[test]
    fn only_a_listener_that_is_gone_is_no_error() {
        struct Failing(ErrorKind);
        impl Write for Failing {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(write(&mut Failing(ErrorKind::BrokenPipe), "text").is_ok());
        assert!(write(&mut Failing(ErrorKind::StorageFull), "text").is_err());
    }
}
