//! Whether a directory is that of a set or of a pool. Both have an authority, tokens and a signed list, and are joined in the same
//! way; they differ in how many they may be, and in what a person types.
//!
//! What must never enter: what members do.

/// What servers join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A set of replicas, which keep one tree.
    Set,
    /// A pool: the data servers and the metadata servers of one site.
    Pool,
}

impl Kind {
    /// Both.
    pub(super) const ALL: [Kind; 2] = [Kind::Set, Kind::Pool];

    /// In messages, and in the commands of `meridian`.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Kind::Set => "set",
            Kind::Pool => "pool",
        }
    }

    /// Members at one time, those that keep no contents included.
    #[must_use]
    pub const fn members_max(self) -> usize {
        match self {
            // As many as views can be agreed on with.
            Kind::Set => super::list::MEMBERS_MAX,
            // As many data servers as one file can be striped over, and a metadata server.
            Kind::Pool => 65,
        }
    }

    /// What every token begins with; the number is the version of its format.
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
