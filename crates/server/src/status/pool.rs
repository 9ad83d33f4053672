//! The state of the pool of a server.
//!
//! What must never enter: collecting it.

use std::fmt;

use pool::Holding;
use serde::{Deserialize, Serialize};

use super::is_little;
use super::text::size;
use vfs::{Counted, ShownText};

/// The pool of a server, as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// The pool.
    pub pool: String,
    /// `metadata server` or `data server`.
    pub role: String,
    /// It is a joined metadata server: it serves the name space of the first one.
    #[serde(default)]
    pub joined: bool,
    /// The server's number in the pool.
    pub number: u16,
    /// The number of consecutive bytes of a new file on one data server.
    pub stripe_unit_bytes: u64,
    /// On the first metadata server all others; on other servers the first metadata server.
    pub servers: Vec<PoolServerStatus>,
    /// What a data server itself stores.
    #[serde(default)]
    pub holding: Option<Holding>,
    /// On a metadata server, the progress of moving files to other data servers; `None` when there are none to move.
    #[serde(default)]
    pub moving: Option<MovingStatus>,
    /// On the first metadata server, servers that were given up and whose removal is not complete.
    #[serde(default)]
    pub giving_up: Vec<GivingUpStatus>,
    /// On a joined metadata server, the source of its answers to clients.
    #[serde(default)]
    pub copies: Option<CopiesStatus>,
}

/// How a joined metadata server answers: from its copies, or by asking the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiesStatus {
    /// The number of its copies of attributes, names and entries of directories.
    pub kept: u64,
    /// The number of answers from copies since the server started.
    pub answered: u64,
    /// The number of questions to the first metadata server since then, except for leases.
    pub questions: u64,
    /// The number of objects whose copies the first one has revoked since then.
    pub taken_back: u64,
}

impl fmt::Display for CopiesStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} attributes and names; {} answers from copies, {} questions, {} copies taken back since it started",
            self.kept, self.answered, self.questions, self.taken_back
        )
    }
}

/// Files that move to other data servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovingStatus {
    /// Files are being spread over added data servers.
    pub spreading: bool,
    /// The number of files still to move at the last count; `None` before the first count.
    pub files_left: Option<u64>,
    /// Their size in bytes.
    pub bytes_left: Option<u64>,
    /// The number of files moved since the server started.
    pub files_moved: u64,
    /// The bytes copied for that.
    pub bytes_copied: u64,
    /// The maximum copy rate, in bytes per second.
    pub rate_bytes: u64,
    /// The file that is being moved now.
    pub path: Option<String>,
    /// Why the last attempt to move a file failed; it is tried again.
    pub trouble: Option<String>,
}

impl fmt::Display for MovingStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.files_left, self.bytes_left) {
            (Some(files), Some(bytes)) => {
                write!(f, "{} left ({})", Counted(files, "file"), size(bytes))?
            }
            _ => write!(f, "counting files")?,
        }
        let (moved, copied) = (self.files_moved, size(self.bytes_copied));
        let rate = size(self.rate_bytes);
        write!(f, ", {moved} moved ({copied}, at most {rate}/s)")?;
        if let Some(path) = &self.path {
            write!(f, ", now {path}")?;
        }
        match &self.trouble {
            Some(trouble) => write!(f, "; {}", ShownText(trouble)),
            None => Ok(()),
        }
    }
}

/// A server that is being given up because it is lost for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivingUpStatus {
    /// Its number.
    pub number: u16,
    /// Why the last attempt failed; it is tried again.
    pub trouble: Option<String>,
}

impl fmt::Display for GivingUpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "server {} is refused; the tree is searched for what was lost with it",
            self.number
        )?;
        match &self.trouble {
            Some(trouble) => write!(f, "; {}", ShownText(trouble)),
            None => Ok(()),
        }
    }
}

/// Another server of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolServerStatus {
    /// Its number.
    pub number: u16,
    /// Its name; empty for none.
    pub name: String,
    /// `metadata server` or `data server`.
    pub role: String,
    /// Where it is reached.
    pub addresses: Vec<String>,
    /// It is connected.
    pub connected: bool,
    /// Why it is not connected, or why it does not serve, if known.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Whether it serves clients. A data server does so if it has a lease of the metadata server and has executed all
    /// pending changes. For a metadata server, this says whether it is connected.
    #[serde(default)]
    pub serves: bool,
    /// New files are striped over a group that includes it.
    #[serde(default)]
    pub new_files: bool,
    /// It is being emptied.
    #[serde(default)]
    pub draining: bool,
    /// It is a joined metadata server that is the home of directories.
    #[serde(default)]
    pub home: bool,
    /// Changes that it has not executed yet.
    #[serde(default)]
    pub waits: u64,
    /// What a connected data server stores.
    #[serde(default)]
    pub holding: Option<Holding>,
}

/// Whether a person should free space at a data server.
pub(crate) fn is_nearly_full(holding: &Holding) -> bool {
    is_little(holding.available_bytes, holding.total_bytes)
}

/// What a data server stores, for people.
pub struct HoldingText<'s>(pub &'s Holding);

impl PoolServerStatus {
    /// Whether it works, or is about to.
    pub(crate) fn is_well(&self) -> bool {
        self.connected && (self.serves || self.trouble.is_none())
    }

    /// Its state, without what it stores.
    #[must_use]
    pub fn condition(&self) -> String {
        let how = match (self.connected, self.serves) {
            (false, _) => format!("away{}", self.because()),
            (true, false) => format!("connected, does not serve{}", self.because()),
            (true, true) if self.holding.is_none() => "connected".to_owned(),
            (true, true) => "serves".to_owned(),
        };
        let note = match (self.waits, self.new_files) {
            (0, false) if self.home => ", home of directories".to_owned(),
            (0, false) if self.draining => ", is to be emptied and gets no new files".to_owned(),
            (0, false) if self.holding.is_some() => ", gets no new files".to_owned(),
            (0, _) => String::new(),
            (waits, _) => format!(", {waits} changes wait for it"),
        };
        how + &note
    }

    /// Why it is away, or does not serve, after a colon; empty if unknown.
    pub(super) fn because(&self) -> String {
        let trouble = self.trouble.as_ref();
        trouble.map_or_else(String::new, |trouble| format!(": {}", ShownText(trouble)))
    }
}

impl fmt::Display for PoolStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pool {}\n  role         {}, number {}\n  stripe unit  {}",
            self.pool,
            self.role,
            self.number,
            size(self.stripe_unit_bytes)
        )?;
        if self.joined {
            write!(f, "\n  shows        what the first metadata server keeps")?;
        }
        if let Some(copies) = &self.copies {
            write!(f, "\n  copies       {copies}")?;
        }
        if let Some(holding) = &self.holding {
            write!(f, "\n  keeps        {}", HoldingText(holding))?;
        }
        if let Some(moving) = &self.moving {
            write!(f, "\n  moving       {moving}")?;
        }
        for lost in &self.giving_up {
            write!(f, "\n  giving up    {lost}")?;
        }
        self.servers
            .iter()
            .try_for_each(|server| write!(f, "\n{server}"))
    }
}

impl fmt::Display for PoolServerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.name.as_str() {
            "" => String::new(),
            name => format!(" ({})", ShownText(name)),
        };
        let addresses = self.addresses.join(", ");
        write!(
            f,
            "  {} {}{name} at {}: {}",
            self.role,
            self.number,
            ShownText(&addresses),
            self.condition()
        )?;
        match &self.holding {
            Some(holding) => write!(f, "; {}", HoldingText(holding)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for HoldingText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HoldingText(holding) = self;
        let files = Counted(holding.contents, "file");
        write!(
            f,
            "{files}; {} of {} available; {} read, {} written since it started",
            size(holding.available_bytes),
            size(holding.total_bytes),
            size(holding.read_bytes),
            size(holding.written_bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::alarms::of_pool;
    use super::*;

    fn example() -> PoolStatus {
        let holding = Holding {
            total_bytes: 10 << 30,
            available_bytes: 4 << 30,
            contents: 3,
            read_bytes: 1 << 20,
            written_bytes: 2 << 20,
        };
        let server = |number, connected| PoolServerStatus {
            number,
            name: "attic".to_owned(),
            role: "data server".to_owned(),
            addresses: vec!["192.0.2.2:2049".to_owned()],
            connected,
            trouble: (!connected).then(|| "connection refused".to_owned()),
            serves: connected,
            new_files: connected,
            draining: false,
            home: false,
            waits: u64::from(!connected) * 2,
            holding: connected.then_some(holding),
        };
        PoolStatus {
            pool: "00000000000000000000000000000003".to_owned(),
            role: "metadata server".to_owned(),
            joined: false,
            number: 1,
            stripe_unit_bytes: 1 << 20,
            servers: vec![server(2, true), server(3, false)],
            holding: None,
            moving: None,
            giving_up: Vec::new(),
            copies: None,
        }
    }

    #[test]
    fn who_is_away_is_told_with_the_reason() {
        let told = example().to_string();
        for part in [
            "role         metadata server, number 1",
            "data server 2 (attic) at 192.0.2.2:2049: serves; 3 files; 4.0 GiB of 10.0 GiB available",
            "data server 3 (attic) at 192.0.2.2:2049: away: connection refused, 2 changes wait for it",
        ] {
            assert!(told.contains(part), "`{part}` is not in: {told}");
        }
        let giving_up = PoolStatus {
            giving_up: vec![GivingUpStatus {
                number: 4,
                trouble: Some("no space".to_owned()),
            }],
            ..example()
        };
        let told = giving_up.to_string();
        let part = "giving up    server 4 is refused; the tree is searched for what was lost with it; no space";
        assert!(told.contains(part), "`{part}` is not in: {told}");
        let joined = PoolStatus {
            copies: Some(CopiesStatus {
                kept: 4,
                answered: 3,
                questions: 2,
                taken_back: 1,
            }),
            ..example()
        };
        let told = joined.to_string();
        let part =
            "copies       4 attributes and names; 3 answers from copies, 2 questions, 1 copies";
        assert!(told.contains(part), "`{part}` is not in: {told}");
        let alarms = of_pool(&example());
        assert_eq!(alarms.len(), 1);
        assert!(
            alarms[0]
                .what
                .starts_with("data server 3 is not connected: ")
        );
    }

    #[test]
    fn a_data_server_without_space_is_named_by_everybody_who_knows() {
        let mut pool = example();
        pool.servers.truncate(1);
        let full = Holding {
            available_bytes: 1 << 20,
            ..pool.servers[0].holding.unwrap()
        };
        pool.servers[0].holding = Some(full);
        let alarms = of_pool(&pool);
        assert_eq!(alarms.len(), 1);
        assert_eq!(alarms[0].name, "pool-server-full");
        let told = "data server 2 (attic) has 1.0 MiB of 10.0 GiB left";
        assert!(alarms[0].what.starts_with(told), "{}", alarms[0].what);
        // The same as in its own status.
        pool.servers.clear();
        (pool.holding, pool.number) = (Some(full), 2);
        pool.role = "data server".to_owned();
        let told = "data server 2 has 1.0 MiB of 10.0 GiB left";
        let own = of_pool(&pool);
        assert!(own[0].what.starts_with(told), "{}", own[0].what);
    }

    #[test]
    fn files_that_move_are_told_and_those_that_cannot_deserve_an_alarm() {
        let mut pool = PoolStatus {
            moving: Some(MovingStatus {
                files_left: Some(7),
                bytes_left: Some(3 << 20),
                files_moved: 2,
                bytes_copied: 1 << 20,
                rate_bytes: 64 << 20,
                path: Some("/a".to_owned()),
                ..MovingStatus::default()
            }),
            ..example()
        };
        pool.servers.truncate(1);
        let told = pool.to_string();
        let line =
            "moving       7 files left (3.0 MiB), 2 moved (1.0 MiB, at most 64.0 MiB/s), now /a";
        assert!(told.contains(line), "{told}");
        assert!(of_pool(&pool).is_empty());
        if let Some(moving) = &mut pool.moving {
            moving.trouble = Some("/b: no space left".to_owned());
        }
        let alarms = of_pool(&pool);
        assert_eq!(alarms[0].name, "pool-files-not-moved");
        assert!(alarms[0].what.contains("/b: no space left"));
    }

    #[test]
    fn programs_read_what_was_written() {
        let json = serde_json::to_string(&example()).unwrap();
        assert_eq!(
            serde_json::from_str::<PoolStatus>(&json).unwrap(),
            example()
        );
    }
}
