//! Shell commands for mounting the exports.
//!
//! What must never enter: names that need a lookup.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use server::Status;
use server::configuration::NFS_PORT;

/// The mount point in the examples.
const MOUNT_POINT: &str = "/mnt";

/// The command that mounts an export at a client.
fn mount_command(server: SocketAddr, export: &str) -> String {
    let address = match server {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    let port = match server.port() {
        NFS_PORT => String::new(),
        port => format!("-o port={port} "),
    };
    format!("mount -t nfs4 {port}{address}:{export} {MOUNT_POINT}")
}

/// The addresses for clients of a server that listens at `listen` on a machine with these addresses. It is unknown
/// whether clients can resolve its name.
fn reached_at(listen: SocketAddr, own: &[IpAddr]) -> Vec<SocketAddr> {
    let fits = |own: &IpAddr| listen.is_ipv6() || own.is_ipv4();
    let at = |own: IpAddr| SocketAddr::new(own, listen.port());
    match listen.ip().is_unspecified() {
        true => own.iter().copied().filter(fits).map(at).collect(),
        false => vec![listen],
    }
}

/// The addresses at which other machines may reach this one, IPv4 first; the loopback address if there are none.
pub(crate) fn own_addresses() -> Vec<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|at| IpAddr::V4(at.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|at| IpAddr::V6(at.ip())))
    });
    let mut addresses: Vec<IpAddr> = addresses.filter(is_for_others).collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.dedup();
    if addresses.is_empty() {
        addresses.push(Ipv4Addr::LOCALHOST.into());
    }
    addresses
}

fn is_for_others(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    }
}

/// The message of a server that is ready, on a machine with these addresses.
pub(crate) fn announcement(status: &Status, own: &[IpAddr]) -> String {
    let listen: Vec<String> = status.listen.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "Meridian {} is ready at {}.\n",
        status.version,
        listen.join(", ")
    );
    if let Some(pool) = &status.pool {
        let what = match pool.role.as_str() {
            "data server" => format!(
                "data server {} of pool {}, to which its metadata server leads clients",
                pool.number, pool.pool
            ),
            _ if pool.joined => format!(
                "metadata server {} of pool {}, and shows what the first one keeps",
                pool.number, pool.pool
            ),
            _ => {
                let servers = pool.servers.iter();
                let data_servers = servers.filter(|server| server.role == "data server");
                format!(
                    "the metadata server of pool {}, with {} data servers",
                    pool.pool,
                    data_servers.count()
                )
            }
        };
        text += &format!("  It is {what}.\n");
    }
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
        let reached = status.listen.iter().flat_map(|at| reached_at(*at, own));
        let commands = reached.map(|at| mount_command(at, &export.path));
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
    fn mount_commands_name_addresses_port_and_path() {
        let own = ["192.0.2.7", "2001:db8::7"].map(|own| own.parse().unwrap());
        for (listen, commands) in [
            (
                "[::]:2049",
                "mount -t nfs4 192.0.2.7:/export /mnt, mount -t nfs4 [2001:db8::7]:/export /mnt",
            ),
            (
                "0.0.0.0:2050",
                "mount -t nfs4 -o port=2050 192.0.2.7:/export /mnt",
            ),
            ("192.0.2.1:2049", "mount -t nfs4 192.0.2.1:/export /mnt"),
            (
                "[2001:db8::1]:9",
                "mount -t nfs4 -o port=9 [2001:db8::1]:/export /mnt",
            ),
        ] {
            let reached = reached_at(listen.parse().unwrap(), &own).into_iter();
            let told: Vec<_> = reached.map(|at| mount_command(at, "/export")).collect();
            assert_eq!(told.join(", "), commands);
        }
    }
}
