//! What servers are made of, and what they are together.
//!
//! What must never enter: servers that run.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use testbed::Role;

/// What the servers of a run are together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Together {
    /// A set, each of which keeps everything.
    Set,
    /// A set whose last one is a witness, which keeps no contents.
    SetWithWitness,
    /// A pool: metadata servers, as many as half of all or one more, and data servers.
    Pool,
}

impl Together {
    /// How many servers have clients, of all; they are the first ones.
    pub(super) fn serving(self, sites: usize) -> usize {
        match self {
            Together::Set => sites,
            Together::SetWithWitness => sites - 1,
            Together::Pool => sites.div_ceil(2),
        }
    }

    pub(super) fn role(self, site: usize, sites: usize) -> Role {
        let serves = site < self.serving(sites);
        match self {
            Together::Set | Together::SetWithWitness if serves => Role::Replica,
            Together::Set | Together::SetWithWitness => Role::Witness,
            Together::Pool if serves => Role::MetadataServer,
            Together::Pool => Role::DataServer,
        }
    }
}

/// What servers are made of.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The server program.
    pub program: &'a Path,
    /// How many.
    pub sites: usize,
    /// What they are together.
    pub kind: Together,
    /// Whether the time of day may jump at running servers.
    pub jumps: bool,
    /// The time from one site to another and back.
    pub round_trip: Duration,
    /// More of the configuration, in its own words.
    pub settings: &'a str,
    /// Where the disks are mounted.
    pub folder: &'a Path,
}
