//! How the pool of a server is.
//!
//! What must never enter: the getting of it.

use std::fmt;

use pool::Holding;
use serde::{Deserialize, Serialize};

use super::is_little;
use super::text::size;
use vfs::{Counted, ShownText};

/// The pool that a server belongs to, as far as it knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// The pool.
    pub pool: String,
    /// `metadata server` or `data server`.
    pub role: String,
    /// A metadata server that has joined: it shows what the first one keeps.
    #[serde(default)]
    pub joined: bool,
    /// The server's number in the pool.
    pub number: u16,
    /// How many consecutive bytes of a new file lie on one data server.
    pub stripe_unit_bytes: u64,
    /// At the first metadata server the others, elsewhere the first metadata server.
    pub servers: Vec<PoolServerStatus>,
    /// What a data server keeps itself.
    #[serde(default)]
    pub holding: Option<Holding>,
    /// At a metadata server, how far it is with files that move to other data servers; nothing when none are to.
    #[serde(default)]
    pub moving: Option<MovingStatus>,
    /// At the first metadata server, servers that were given up, where what follows from it is not done yet.
    #[serde(default)]
    pub giving_up: Vec<GivingUpStatus>,
    /// At a metadata server that has joined, how it answers its clients.
    #[serde(default)]
    pub copies: Option<CopiesStatus>,
}

/// What a metadata server that has joined answers itself, and what it asks the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiesStatus {
    /// Attributes, names and entries of directories of which it has copies.
    pub kept: u64,
    /// What was answered from copies since the server started.
    pub answered: u64,
    /// Questions to the first metadata server since then, but for leases.
    pub questions: u64,
    /// Objects of which the first one has taken the copies back since then.
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
    /// Files are spread over data servers that were added.
    pub spreading: bool,
    /// Files that are still to be moved, when they were last counted; nothing before the first count.
    pub files_left: Option<u64>,
    /// What these have, in bytes.
    pub bytes_left: Option<u64>,
    /// Files that were moved since the server started.
    pub files_moved: u64,
    /// What was copied for that, in bytes.
    pub bytes_copied: u64,
    /// The bound on what is copied in a second, in bytes.
    pub rate_bytes: u64,
    /// The file that is being moved.
    pub path: Option<String>,
    /// Why a file could not be moved when it was last tried; it is tried again.
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

/// A server that is being given up, because it is lost for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivingUpStatus {
    /// Its number.
    pub number: u16,
    /// Why it did not go on when it was last tried; it is tried again.
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
    /// What people call it; empty for nothing.
    pub name: String,
    /// `metadata server` or `data server`.
    pub role: String,
    /// Where it is reached.
    pub addresses: Vec<String>,
    /// There is a connection.
    pub connected: bool,
    /// Why there is no connection, or why it does not serve, as far as that is known.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Clients are answered there: a data server has a lease of the metadata server, and has done everything that waited for it; of a metadata
    /// server it says whether there is a connection.
    #[serde(default)]
    pub serves: bool,
    /// New files are striped over it, among others.
    #[serde(default)]
    pub new_files: bool,
    /// It is to be emptied.
    #[serde(default)]
    pub draining: bool,
    /// A metadata server that has joined, at which directories live.
    #[serde(default)]
    pub home: bool,
    /// Changes that it has not carried out yet.
    #[serde(default)]
    pub waits: u64,
    /// What a data server that is connected keeps.
    #[serde(default)]
    pub holding: Option<Holding>,
}

/// Whether somebody should make space at a data server.
pub(crate) fn is_nearly_full(holding: &Holding) -> bool {
    is_little(holding.available_bytes, holding.total_bytes)
}

/// What a data server keeps, as people read it.
pub struct HoldingText<'s>(pub &'s Holding);

impl PoolServerStatus {
    /// Whether it does its part, or is about to.
    pub(crate) fn is_well(&self) -> bool {
        self.connected && (self.serves || self.trouble.is_none())
    }

    /// How it is, without what it keeps.
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

    /// Why it is away, or does not serve, behind a colon; nothing where that is not known.
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
        // The same as it says of itself.
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
