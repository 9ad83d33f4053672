//! The exports that a guest mounts, and the mount options.
//!
//! What must never enter: defaults that differ from those of the mount command, except
//! the minor version, which tests must know.

use std::net::SocketAddr;

/// An export of an NFSv4 server with mount options, see nfs(5).
#[derive(Clone, Debug)]
pub struct Mount {
    server: SocketAddr,
    export: String,
    version: String,
    options: Vec<String>,
}

impl Mount {
    /// `export` of the server at this address, by NFSv4.1 and AUTH_SYS over TCP.
    pub fn of(server: SocketAddr, export: impl Into<String>) -> Self {
        Self {
            server,
            export: export.into(),
            version: "4.1".into(),
            options: Vec::new(),
        }
    }

    /// Uses this version, such as `4.2`.
    ///
    /// The Linux client builds its owner identifier from minor version and host name, so for the server mounts of
    /// one guest by 4.1 and by 4.2 are two clients.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Adds a mount option. `nosharecache` keeps two mounts of one export apart in one guest: they
    /// share the client's lease and session but neither cache nor locks, so their locks conflict
    /// at the server.
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// The words after `mount` except the mount point.
    pub(crate) fn arguments(&self) -> [String; 5] {
        let mut options = vec![
            format!("vers={}", self.version),
            "proto=tcp".to_owned(),
            "sec=sys".to_owned(),
            format!("port={}", self.server.port()),
        ];
        options.extend_from_slice(&self.options);
        let source = match self.server {
            SocketAddr::V4(server) => format!("{}:{}", server.ip(), self.export),
            SocketAddr::V6(server) => format!("[{}]:{}", server.ip(), self.export),
        };
        [
            "-t".into(),
            "nfs4".into(),
            "-o".into(),
            options.join(","),
            source,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_the_defaults_so_that_they_win() {
        let mount = Mount::of("10.99.0.1:2049".parse().unwrap(), "/export")
            .version("4.2")
            .option("nosharecache")
            .option("sec=none");
        assert_eq!(
            mount.arguments()[3..],
            [
                "vers=4.2,proto=tcp,sec=sys,port=2049,nosharecache,sec=none",
                "10.99.0.1:/export"
            ]
        );
    }
}
