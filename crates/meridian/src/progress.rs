//! How far a command is that takes long: a line that changes, on a terminal; elsewhere a line now and then, for who reads them later.
//!
//! What must never enter: results; they go through `output`.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use server::configuration::format_duration;

use crate::output;

/// A command that is done sooner shows nothing.
const SILENT: Duration = Duration::from_secs(1);
/// How often the line moves.
const TICK: Duration = Duration::from_millis(200);
/// Where there is no terminal a line is said after this time, and then again after twice as long each time, up to the longest pause.
const FIRST_LINE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A line on standard error while something goes on. It goes when this is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Something whose end is not known.
    pub(crate) fn of(what: &'static str) -> Progress {
        Progress::begun(None, what, "{spinner} {prefix} ({elapsed})")
    }

    /// Something that ends when all of many are done.
    pub(crate) fn of_many(what: &'static str) -> Progress {
        let template = "{spinner} {prefix} [{bar:30}] {pos} of {len}, {eta} to go";
        Progress::begun(Some(0), what, template)
    }

    fn begun(length: Option<u64>, what: &'static str, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
        // Changes of a bar that is there already would draw it at once.
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

/// Shows it from the second second on, without anybody's doing.
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

/// What is going on, and for how long, in a line of its own.
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
