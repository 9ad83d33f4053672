//! What servers are made of, and what they are together.
//!
//! What must never enter: servers that run.

use std::path::Path;
use std::time::Duration;

use nfs4::LayoutIomode4;
use serde::Serialize;
use testbed::Role;

use crate::schedule::{FIRST, POOLED, is_data_server};

/// How many data servers a member of a set has that has a pool.
const DATA_SERVERS: usize = 3;

/// What the servers of a run are together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Together {
    /// A set, each of which keeps everything.
    Set,
    /// A set whose last one is a witness, which keeps no contents.
    SetWithWitness,
    /// A set, of which one keeps its contents on data servers of its own.
    SetWithPool,
    /// A pool: metadata servers, as many as half of all or one more, and data servers.
    Pool,
}

impl Together {
    /// How many servers have clients, of all; they are the first ones.
    pub(super) fn serving(self, sites: usize) -> usize {
        match self {
            Together::Set | Together::SetWithPool => sites,
            Together::SetWithWitness => sites - 1,
            Together::Pool => sites.div_ceil(2),
        }
    }

    /// How many data servers there are that belong to one of the sites.
    pub fn data_servers(self) -> usize {
        match self {
            Together::SetWithPool => DATA_SERVERS,
            Together::Set | Together::SetWithWitness | Together::Pool => 0,
        }
    }

    /// For what clients of a site get layouts.
    pub fn layouts(self, site: usize) -> Option<LayoutIomode4> {
        match self {
            Together::Pool => Some(LayoutIomode4::ReadWrite),
            Together::SetWithPool if site == POOLED => Some(LayoutIomode4::Read),
            Together::Set | Together::SetWithWitness | Together::SetWithPool => None,
        }
    }

    /// Whether some clients do.
    pub fn has_layouts(self) -> bool {
        matches!(self, Together::Pool | Together::SetWithPool)
    }

    /// Whether the server of a site has a pool besides its place in the set.
    pub(super) fn has_own_pool(self, site: usize) -> bool {
        self == Together::SetWithPool && site == POOLED
    }

    /// Who invites a server.
    pub(super) fn inviter(self, number: usize) -> usize {
        match is_data_server(number) {
            true => POOLED,
            false => FIRST,
        }
    }

    pub(super) fn role(self, number: usize, sites: usize) -> Role {
        let serves = number < self.serving(sites);
        match self {
            Together::SetWithPool if is_data_server(number) => Role::DataServer,
            _ if serves && self != Together::Pool => Role::Replica,
            Together::Set | Together::SetWithWitness | Together::SetWithPool => Role::Witness,
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
    /// How many sites.
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
