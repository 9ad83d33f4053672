//! Whether a directory is for a set or for a pool. Both have an authority, tokens and a signed list, and servers join
//! both in the same way. They differ in the maximum number of members and in the commands.
//!
//! What must never enter: the work of the members.

/// What servers can join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A set of replicas that keep one tree.
    Set,
    /// A pool: the data servers and the metadata servers of one site.
    Pool,
}

impl Kind {
    /// Both.
    pub(super) const ALL: [Kind; 2] = [Kind::Set, Kind::Pool];

    /// The word in messages and in the commands of `meridian`.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Kind::Set => "set",
            Kind::Pool => "pool",
        }
    }

    /// The maximum number of members at one time, including those that keep no contents.
    #[must_use]
    pub const fn members_max(self) -> usize {
        match self {
            // The maximum with which views can be agreed on.
            Kind::Set => super::list::MEMBERS_MAX,
            // The maximum number of data servers over which one file can be striped, and a metadata server.
            Kind::Pool => 65,
        }
    }

    /// The beginning of every token; the number is the version of its format.
    pub(super) const fn token_prefix(self) -> &'static str {
        match self {
            Kind::Set => "meridian1.",
            Kind::Pool => "meridian-pool1.",
        }
    }

    /// The file with the list of members.
    pub(super) const fn list_file(self) -> &'static str {
        match self {
            Kind::Set => "set.json",
            Kind::Pool => "pool.json",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.noun())
    }
}
