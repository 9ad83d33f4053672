//! How the package is played in the figures that compare sets with one server: with shortened think time and without,
//! with answers before and after changes are stable, and on processors of its own and on shared ones.
//!
//! What must never enter: where it is played.

use crate::replay::Pauses;

/// By how much pauses are divided, so that plays with think time can follow each other within hours.
const DIVISOR: u32 = 4;

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// The panel of its points.
    pub(super) panel: &'static str,
    /// What its plots add to the page's name.
    pub(super) plot: &'static str,
    /// What becomes of the pauses of the recording.
    pub(super) pauses: Pauses,
    /// Whether client and primary have processors of their own.
    pub(super) is_apart: bool,
    /// Lines at the head of the configuration of all servers.
    pub(super) settings: &'static str,
    /// The same for replicas alone, which end their control of a subtree as much earlier as pauses are shorter.
    pub(super) of_replicas: &'static str,
}

const ASYNC: &str = "commit = \"async\"\n";

/// The default of a second, divided by [`DIVISOR`].
const IDLE: &str = "[replication]\ndeep_control_idle = \"250 ms\"\n";

const DENSE: Kind = Kind {
    panel: "without think time, sync",
    plot: "",
    pauses: Pauses::None,
    is_apart: true,
    settings: "",
    of_replicas: "",
};

const THINKING: Kind = Kind {
    panel: "with think time, sync",
    plot: "thinking",
    pauses: Pauses::Shortened(DIVISOR),
    is_apart: true,
    settings: "",
    of_replicas: IDLE,
};

/// All, in the order of the page.
pub(super) const KINDS: [Kind; 5] = [
    DENSE,
    Kind {
        panel: "without think time, sync, shared processors",
        plot: "shared",
        is_apart: false,
        ..DENSE
    },
    THINKING,
    Kind {
        panel: "without think time, async",
        plot: "async",
        settings: ASYNC,
        ..DENSE
    },
    Kind {
        panel: "with think time, async",
        plot: "async-thinking",
        settings: ASYNC,
        ..THINKING
    },
];

impl Kind {
    /// The kind of a panel.
    pub(super) fn of(panel: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.panel == panel)
    }
}

/// What a page says of them.
pub(super) fn about() -> String {
    format!(
        "*Sync*: a change is answered once it is on stable storage, the default. *Async*: at once (`commit = \"async\"`), as the papers' \
         servers did. *With think time* the pauses of the recording, {DIVISOR} times shorter, are kept, and control of a subtree \
         ends after 250 ms instead of 1 s without changes, so that there are as many elections as with whole pauses: what replication \
         costs weighs {DIVISOR} times as much in these as in whole ones. One play goes on at a time. The client and the server that it asks \
         have one part of the machine's processors and all else has the other, as the other sites would have machines of their own ([a check](processors.md)); \
         on *shared processors* they have not, and what competition adds is seen."
    )
}
