//! Errors of the operating system, for people.
//!
//! What must never enter: how errors are handled.

use std::fmt::Display;
use std::io;

/// Formats errors of the operating system without their numbers: `Connection refused`, like other programs. Other text
/// in brackets is kept.
#[must_use]
pub fn plain(text: impl Display) -> String {
    const BEFORE_NUMBER: &str = " (os error ";
    let text = text.to_string();
    let (mut told, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some((before, behind)) = rest.split_once(BEFORE_NUMBER) {
        told += before;
        rest = behind;
        let number = behind.split_once(')');
        let number = number.and_then(|(number, after)| Some((number.parse().ok()?, after)));
        match number {
            Some((number, after)) if is_said_at_end(&told, number) => rest = after,
            _ => told += BEFORE_NUMBER,
        }
    }
    told + rest
}

/// Whether a text ends with the operating system's message for this error number.
fn is_said_at_end(text: &str, number: i32) -> bool {
    let said = io::Error::from_raw_os_error(number).to_string();
    said.strip_suffix(&format!(" (os error {number})"))
        .is_some_and(|words| text.ends_with(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_told_in_its_words_alone() {
        let refused = io::Error::from(rustix::io::Errno::CONNREFUSED);
        let absent = io::Error::from(rustix::io::Errno::NOENT);
        let told = format!("x: {absent}; y ({refused}), z: {refused}");
        assert_eq!(
            plain(&told),
            "x: No such file or directory; y (Connection refused), z: Connection refused"
        );
        for other in [
            "a file (os error 2)",
            "Connection refused (os error 2)",
            "Connection refused (os error ",
            "Connection refused (os error 99999999999)",
            "Connection refused (os error x)",
        ] {
            assert_eq!(plain(other), other);
        }
    }
}
