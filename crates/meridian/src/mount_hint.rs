//! How to mount what is served, told in the words of a shell.
//!
//! What must never enter: names that would have to be looked up.

use std::net::SocketAddr;

use server::Status;
use server::configuration::NFS_PORT;

/// Where to mount in the examples.
const MOUNT_POINT: &str = "/mnt";

/// The command that mounts an export at a client.
pub(crate) fn mount_command(server: SocketAddr, host: &str, export: &str) -> String {
    let address = match server {
        address if address.ip().is_unspecified() => host.to_owned(),
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    let port = match server.port() {
        NFS_PORT => String::new(),
        port => format!("-o port={port} "),
    };
    format!("mount -t nfs4 {port}{address}:{export} {MOUNT_POINT}")
}

/// What a server tells when it is ready.
pub(crate) fn announcement(status: &Status, host: &str) -> String {
    let listen: Vec<String> = status.listen.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "Meridian {} is ready at {}.\n",
        status.version,
        listen.join(", ")
    );
    for export in &status.exports {
        let replication = export.replication.as_ref();
        if replication.is_some_and(|replication| replication.witness) {
            text += &format!(
                "  It is a witness of its set: it votes, and keeps no contents of the tree \"{}\".\n  \
                 Clients mount {} at a server that keeps the tree.\n",
                export.tree, export.path
            );
            continue;
        }
        text += &format!(
            "  {} shows the tree \"{}\"; mount it with\n",
            export.path, export.tree
        );
        let commands = status
            .listen
            .iter()
            .map(|at| mount_command(*at, host, &export.path));
        text.extend(commands.map(|command| format!("    {command}\n")));
    }
    if let Some(page) = status.page {
        text += &format!("  http://{page}/ shows how it is\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_commands_name_host_port_and_path() {
        for (server, command) in [
            ("[::]:2049", "mount -t nfs4 alpha:/export /mnt"),
            (
                "0.0.0.0:2050",
                "mount -t nfs4 -o port=2050 alpha:/export /mnt",
            ),
            ("192.0.2.1:2049", "mount -t nfs4 192.0.2.1:/export /mnt"),
            (
                "[2001:db8::1]:9",
                "mount -t nfs4 -o port=9 [2001:db8::1]:/export /mnt",
            ),
        ] {
            assert_eq!(
                mount_command(server.parse().unwrap(), "alpha", "/export"),
                command
            );
        }
    }
}
