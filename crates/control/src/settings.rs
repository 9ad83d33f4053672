//! The settings of replication control for administrators, and the switches for experiments.

use crate::rules::Rules;
use std::time::Duration;

/// What happens to an update of a directory that another replica controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// It is forwarded to the controlling replica, which is also asked to relinquish.
    Forward,
    /// It waits until this replica controls the directory, as in the papers.
    Wait,
}

/// The strategies of section 3.3 of the main paper. Each can be switched off, so that an evaluation can measure its
/// effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategies {
    /// First: deep control outlives its last update by [`Settings::deep_control_idle`]. Without it,
    /// deep control is given up as soon as everything done under it has been applied.
    pub idle_timer: bool,
    /// Second: a revoke or a waiting competitor shortens that time.
    pub revoke: bool,
    /// Third: a file written under deep control gets shallow control of its own.
    pub file_control_under_deep: bool,
    /// Fourth: many controls below one directory are followed by deep control of it.
    pub upgrade: bool,
    /// Whether there is deep control; without it only the fine-grained protocol of section 2 remains.
    pub deep_control: bool,
}

impl Default for Strategies {
    fn default() -> Strategies {
        Strategies {
            idle_timer: true,
            revoke: true,
            file_control_under_deep: true,
            upgrade: true,
            deep_control: true,
        }
    }
}

/// The behaviour of one replica's control core. Replicas may differ in everything except the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long deep control outlives the last update below it. One second covers the bursts in a build of a source
    /// tree (main paper, section 4.1).
    pub deep_control_idle: Duration,
    /// How long a file's control outlives its last write and the last open for writing.
    pub file_control_idle: Duration,
    /// How long a file's control outlives its last write while a client keeps the file open for writing (main paper,
    /// section 2.1: until the file was not modified for a long time). Never shorter than `file_control_idle`.
    pub open_file_control_idle: Duration,
    /// How long shallow control of a directory outlives the last update.
    pub directory_control_idle: Duration,
    /// How long updates continue after the first revoke.
    pub revoke_grace: Duration,
    /// How long no deep control is proposed for a directory whose control had to be given up.
    pub deep_back_off: Duration,
    /// How long a replica that has given something up for a waiter proposes nothing that the waiter needs, while the
    /// waiter waits for others. Zero: not at all.
    pub standing_back: Duration,
    /// The minimum number of own controls below a directory, with none of other replicas, that makes deep control worth
    /// proposing.
    pub upgrade_threshold: u32,
    /// What happens to an update of a directory that another replica controls.
    pub directory_contention: Contention,
    /// The maximum number of waiting operations, and of own controls.
    pub capacity: usize,
    /// Section 3.3, strategy by strategy.
    pub strategies: Strategies,
    /// For tests: the rules in force.
    pub rules: Rules,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            deep_control_idle: Duration::from_secs(1),
            file_control_idle: Duration::from_secs(2),
            open_file_control_idle: Duration::from_secs(30),
            directory_control_idle: Duration::from_secs(1),
            revoke_grace: Duration::from_millis(100),
            deep_back_off: Duration::from_secs(5),
            standing_back: Duration::from_secs(3),
            upgrade_threshold: 16,
            directory_contention: Contention::Forward,
            capacity: 65_536,
            strategies: Strategies::default(),
            rules: Rules::ALL,
        }
    }
}
