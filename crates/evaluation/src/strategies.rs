//! The strategies of section 3.3 of the main paper, switched off one at a time in the servers' configuration.
//!
//! What must never enter: the measurements.

/// With all strategies.
pub(crate) const ALL_ON: &str = "all strategies";

/// Settings with which control covers only single files and directories.
pub(crate) const WITHOUT_SUBTREES: &str = "[replication.strategies]\ndeep_control = false\n";

/// Without control of subtrees, as in the first design of the papers.
pub(crate) const NO_DEEP_CONTROL: &str = "no deep control";

/// Names, and lines of a configuration.
pub(crate) const VARIANTS: [(&str, &str); 6] = [
    (ALL_ON, ""),
    (
        "no idle timer",
        "[replication.strategies]\nidle_timer = false\n",
    ),
    ("no revoke", "[replication.strategies]\nrevoke = false\n"),
    (
        "no file control",
        "[replication.strategies]\nfile_control = false\n",
    ),
    ("no upgrade", "[replication.strategies]\nupgrade = false\n"),
    (NO_DEEP_CONTROL, WITHOUT_SUBTREES),
];
