//! The ways to replay the package in the figures that compare sets with one server: with shortened think time and without,
//! with answers before and after changes are stable, and on separate and shared processors.
//!
//! What must never enter: the place of a replay.

use crate::replay::Pauses;

/// The divisor of pauses, so that replays with think time can follow each other within hours.
const DIVISOR: u32 = 4;

/// One way to replay the package.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// The panel of its points.
    pub(super) panel: &'static str,
    /// The addition to the page's name in its plots.
    pub(super) plot: &'static str,
    /// The treatment of the recorded pauses.
    pub(super) pauses: Pauses,
    /// Whether client and primary have their own processors.
    pub(super) is_apart: bool,
    /// Lines at the head of the configuration of all servers.
    pub(super) settings: &'static str,
    /// The same only for replicas, which end their control of a subtree earlier in proportion to the shorter pauses.
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

/// All kinds, in the order of the page.
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

/// The text about them on a page.
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
