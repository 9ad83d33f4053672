//! The progress of a long command: a changing line on a terminal; otherwise an occasional line, for later reading.
//!
//! What must never enter: results; they go through `output`.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use server::configuration::format_duration;

use crate::output;

/// A command that finishes sooner shows nothing.
const SILENT: Duration = Duration::from_secs(1);
/// The interval of updates of the line.
const TICK: Duration = Duration::from_millis(200);
/// Without a terminal, a line is printed after this time, and then after twice the time each, up to the longest pause.
const FIRST_LINE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A line on standard error during an operation. It disappears when this is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// An operation of unknown length.
    pub(crate) fn of(what: &'static str) -> Progress {
        Progress::begun(None, what, "{spinner} {prefix} ({elapsed})")
    }

    /// An operation on a number of items.
    pub(crate) fn of_many(what: &'static str) -> Progress {
        let template = "{spinner} {prefix} [{bar:30}] {pos} of {len}, {eta} to go";
        Progress::begun(Some(0), what, template)
    }

    fn begun(length: Option<u64>, what: &'static str, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
        // Changes of an existing bar would draw it at once.
        let bar = bar.with_style(style(template)).with_prefix(what);
        begin(&bar);
        Progress { bar }
    }

    /// `done` of `total` are done.
    pub(crate) fn is_at(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Shows it automatically after the first second.
fn begin(bar: &ProgressBar) {
    let bar = bar.downgrade();
    if !stderr().is_terminal() {
        std::thread::spawn(move || {
            let mut pause = FIRST_LINE;
            loop {
                std::thread::sleep(pause);
                match bar.upgrade().filter(|bar| !bar.is_finished()) {
                    Some(bar) => output::remark(line(&bar)),
                    None => return,
                }
                pause = LONGEST_PAUSE.min(2 * pause);
            }
        });
        return;
    }
    std::thread::spawn(move || {
        std::thread::sleep(SILENT);
        if let Some(bar) = bar.upgrade()
            && !bar.is_finished()
        {
            bar.enable_steady_tick(TICK);
        }
    });
}

/// The operation and its duration, as a line.
fn line(bar: &ProgressBar) -> String {
    let (what, done) = (bar.prefix(), bar.position());
    let elapsed = format_duration(Duration::from_secs(bar.elapsed().as_secs()));
    match bar.length() {
        None | Some(0) => format!("{what}: still at it after {elapsed}"),
        Some(total) => format!("{what}: {done} of {total} after {elapsed}"),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let bar = bar
            .with_prefix("looking")
            .with_elapsed(Duration::from_millis(20_300));
        assert_eq!(line(&bar), "looking: still at it after 20 s");
        bar.set_length(7);
        bar.set_position(3);
        assert_eq!(line(&bar), "looking: 3 of 7 after 20 s");
    }
}
