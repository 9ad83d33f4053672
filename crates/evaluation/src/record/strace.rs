//! Parses the lines of strace(1) with `-f -y -ttt -T -s 0`.
//!
//! What must never enter: the meaning of the calls.

use std::collections::HashMap;

/// A system call that has ended, or an exit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// The process that made it.
    pub(crate) process: u32,
    /// When it began, in seconds of some clock.
    pub(crate) began: f64,
    /// When it ended.
    pub(crate) ended: f64,
    /// Its name; `exit` for a process that has ended.
    pub(crate) name: String,
    /// Its arguments as printed.
    pub(crate) arguments: Vec<String>,
    /// Its return value, unless it failed or never returned.
    pub(crate) result: Option<i64>,
    /// It failed because a name does not exist (ENOENT).
    pub(crate) lacks_name: bool,
}

/// The result of parsing a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A call is over.
    Done(Call),
    /// A process has begun a call of this name, and other processes continue meanwhile.
    Begun {
        /// The process.
        process: u32,
        /// The call's name.
        name: String,
    },
}

/// Joins the halves of interrupted calls.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    halves: HashMap<u32, (f64, String)>,
}

impl Lines {
    /// The event in a line; nothing if the line is irrelevant.
    pub(crate) fn read(&mut self, line: &str) -> Option<Event> {
        let (process, rest) = line.split_once(char::is_whitespace)?;
        let (time, text) = rest.trim_start().split_once(' ')?;
        let (process, time) = (process.parse().ok()?, time.parse::<f64>().ok()?);
        if text.starts_with("+++") {
            return Some(Event::Done(exit(process, time)));
        }
        if let Some(begun) = text.strip_suffix(" <unfinished ...>") {
            let name = begun.split('(').next()?.to_owned();
            self.halves.insert(process, (time, begun.to_owned()));
            return Some(Event::Begun { process, name });
        }
        let Some(resumed) = text.strip_prefix("<... ") else {
            return call(process, time, text).map(Event::Done);
        };
        let (_, end) = resumed.split_once(" resumed>")?;
        let (began, begun) = self.halves.remove(&process)?;
        call(process, began, &(begun + end)).map(Event::Done)
    }
}

fn exit(process: u32, time: f64) -> Call {
    Call {
        process,
        began: time,
        ended: time,
        name: "exit".to_owned(),
        arguments: Vec::new(),
        result: None,
        lacks_name: false,
    }
}

/// `openat(AT_FDCWD</tree>, "name", O_RDONLY) = 3</tree/name> <0.000012>`
fn call(process: u32, began: f64, text: &str) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, outcome) = rest.rsplit_once(" = ")?;
    let arguments = arguments.trim_end().strip_suffix(')')?;
    let (outcome, took) = match outcome.rsplit_once(" <") {
        Some((outcome, took)) => (outcome, took.trim_end_matches('>').parse().unwrap_or(0.0)),
        None => (outcome, 0.0),
    };
    let digits = outcome
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(outcome.len());
    Some(Call {
        process,
        began,
        ended: began + took,
        name: name.to_owned(),
        arguments: split(arguments),
        result: outcome[..digits].parse().ok(),
        // ENOTDIR also occurs when a file is opened as a directory.
        lacks_name: outcome.starts_with("-1 ENOENT"),
    })
}

/// Splits arguments at commas outside of brackets and strings.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for letter in text.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' | '(' | '<' => depth += 1,
            '}' | ']' | ')' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(part.trim().to_owned());
                part.clear();
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    if !part.trim().is_empty() {
        parts.push(part.trim().to_owned());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(event: Option<Event>) -> Call {
        match event {
            Some(Event::Done(call)) => call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_is_taken_apart() {
        let line = r#"12 100.5 openat(AT_FDCWD</t>, "a, b", O_RDONLY) = 3</t/a, b> <0.25>"#;
        let call = done(Lines::default().read(line));
        assert_eq!((call.process, call.began, call.ended), (12, 100.5, 100.75));
        assert_eq!(call.arguments, ["AT_FDCWD</t>", "\"a, b\"", "O_RDONLY"]);
        assert_eq!(call.result, Some(3));
    }

    #[test]
    fn failures_have_no_result() {
        let line = r#"12 1.0 access("x", F_OK) = -1 ENOENT (No such file or directory) <0.1>"#;
        let call = done(Lines::default().read(line));
        assert_eq!((call.result, call.lacks_name), (None, true));
        let line = r#"12 1.0 access("x", X_OK) = -1 EACCES (Permission denied) <0.1>"#;
        assert!(!done(Lines::default().read(line)).lacks_name);
    }

    #[test]
    fn halves_are_put_together() {
        let mut lines = Lines::default();
        let begun = lines.read("5 1.0 wait4(-1, <unfinished ...>");
        assert!(matches!(begun, Some(Event::Begun { process: 5, .. })));
        assert_eq!(done(lines.read("6 1.5 +++ exited with 0 +++")).name, "exit");
        let call = done(lines.read("5 2.0 <... wait4 resumed>NULL, 0) = 6 <1.0>"));
        assert_eq!((call.began, call.ended, call.result), (1.0, 2.0, Some(6)));
        assert_eq!(call.arguments, ["-1", "NULL", "0"]);
    }
}
