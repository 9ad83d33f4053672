//! How far a command is that takes long: a line that changes, on a terminal; nothing elsewhere, where lines are read later or by programs.
//!
//! What must never enter: results; they go through `output`.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A command that is done sooner shows nothing.
const SILENT: Duration = Duration::from_secs(1);
/// How often the line moves.
const TICK: Duration = Duration::from_millis(200);

/// A line on standard error while something goes on. It goes when this is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Something whose end is not known.
    pub(crate) fn of(what: &'static str) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(style("{spinner} {prefix} ({elapsed})"));
        bar.set_prefix(what);
        begin(&bar);
        Progress { bar }
    }

    /// Something that ends when all of many are done.
    pub(crate) fn of_many(what: &'static str) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        bar.set_style(style(
            "{spinner} {prefix} [{bar:30}] {pos} of {len}, {eta} to go",
        ));
        bar.set_prefix(what);
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

/// Moves from the second second on, without anybody's doing.
fn begin(bar: &ProgressBar) {
    let weak = bar.downgrade();
    std::thread::spawn(move || {
        std::thread::sleep(SILENT);
        if let Some(bar) = weak.upgrade()
            && !bar.is_finished()
        {
            bar.enable_steady_tick(TICK);
        }
    });
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
