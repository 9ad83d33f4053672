//! The parts of servers, and how the servers work together.
//!
//! What must never enter: servers that run.

use std::path::Path;
use std::time::Duration;

use nfs4::LayoutIomode4;
use serde::Serialize;
use testbed::Role;

use crate::schedule::{FIRST, POOLED, is_data_server};

/// The number of data servers of a set's member with a pool.
const DATA_SERVERS: usize = 3;

/// How the servers of a run work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Together {
    /// A set, in which each server keeps everything.
    Set,
    /// A set. Its last server is a witness, which keeps no contents.
    SetWithWitness,
    /// A set, in which one server keeps its contents on its own data servers.
    SetWithPool,
    /// A pool: half of the servers, rounded up, are metadata servers; the others are data servers.
    Pool,
}

impl Together {
    /// The number of servers with clients, out of all; they are the first ones.
    pub(super) fn serving(self, sites: usize) -> usize {
        match self {
            Together::Set | Together::SetWithPool => sites,
            Together::SetWithWitness => sites - 1,
            Together::Pool => sites.div_ceil(2),
        }
    }

    /// The number of data servers that belong to one of the sites.
    pub fn data_servers(self) -> usize {
        match self {
            Together::SetWithPool => DATA_SERVERS,
            Together::Set | Together::SetWithWitness | Together::Pool => 0,
        }
    }

    /// The kind of layouts that clients of a site get.
    pub fn layouts(self, site: usize) -> Option<LayoutIomode4> {
        match self {
            Together::Pool => Some(LayoutIomode4::ReadWrite),
            Together::SetWithPool if site == POOLED => Some(LayoutIomode4::Read),
            Together::Set | Together::SetWithWitness | Together::SetWithPool => None,
        }
    }

    /// Whether some clients get layouts.
    pub fn has_layouts(self) -> bool {
        matches!(self, Together::Pool | Together::SetWithPool)
    }

    /// Whether the server of a site has a pool besides its place in the set.
    pub(super) fn has_own_pool(self, site: usize) -> bool {
        self == Together::SetWithPool && site == POOLED
    }

    /// The server that invites a server.
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

/// The parts of servers.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The server program.
    pub program: &'a Path,
    /// The number of sites.
    pub sites: usize,
    /// How the servers work together.
    pub kind: Together,
    /// Whether the time of day may jump at running servers.
    pub jumps: bool,
    /// The round trip between two sites.
    pub round_trip: Duration,
    /// Additional configuration text.
    pub settings: &'a str,
    /// Where the disks are mounted.
    pub folder: &'a Path,
}
