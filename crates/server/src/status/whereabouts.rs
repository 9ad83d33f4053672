//! The location of one file of a pool.
//!
//! What must never enter: how it is determined.

use std::fmt;

use serde::{Deserialize, Serialize};
use vfs::ShownText;

use super::size;

/// The location of the contents of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The file in the question.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// The number of consecutive bytes on one data server; `None` if all are at the metadata server.
    pub stripe_unit_bytes: Option<u64>,
    /// The data servers, in the order of the stripes.
    pub parts: Vec<PartStatus>,
}

/// The part of a file on one data server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartStatus {
    /// Its number.
    pub server: u16,
    /// Its name; empty for none.
    pub name: String,
    /// Bytes of the file that belong there, holes included.
    pub bytes: u64,
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, ", ShownText(&self.path), size(self.bytes))?;
        let Some(unit) = self.stripe_unit_bytes else {
            return write!(f, "at the metadata server");
        };
        match &self.parts[..] {
            [_] => write!(f, "all on one data server")?,
            _ => write!(f, "in stripes of {} that go round", size(unit))?,
        }
        for part in &self.parts {
            let called = match part.name.as_str() {
                "" => String::new(),
                name => format!(" ({})", ShownText(name)),
            };
            write!(
                f,
                "\n  data server {}{called}: {}",
                part.server,
                size(part.bytes)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_data_server_has_a_line() {
        let part = |server, name: &str, bytes| PartStatus {
            server,
            name: name.to_owned(),
            bytes,
        };
        let mut where_it_is = Whereabouts {
            path: "/film\n".to_owned(),
            bytes: 3 << 20,
            stripe_unit_bytes: Some(1 << 20),
            parts: vec![part(3, "disks2", 2 << 20), part(2, "", 1 << 20)],
        };
        assert_eq!(
            where_it_is.to_string(),
            "/film\\u{a}: 3.0 MiB, in stripes of 1.0 MiB that go round\n  data server 3 (disks2): 2.0 MiB\n  data server 2: 1.0 MiB"
        );
        where_it_is.parts.pop();
        assert!(where_it_is.to_string().contains("all on one data server\n"));
        (where_it_is.stripe_unit_bytes, where_it_is.parts) = (None, Vec::new());
        assert!(where_it_is.to_string().ends_with("at the metadata server"));
    }
}
