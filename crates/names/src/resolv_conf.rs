//! The DNS servers of this machine, from `/etc/resolv.conf` (resolv.conf(5)). It accepts what the C library accepts.
//!
//! What must never enter: queries to them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

/// The port of DNS servers (RFC 1035, section 4.2).
const PORT: u16 = 53;

/// The C library asks at most this number of servers.
pub(crate) const SERVERS_MAX: usize = 3;

/// Later bytes of the file are ignored.
const BYTES_MAX: u64 = 64 << 10;

/// The DNS servers of this machine. Without a file or without a server in it, this is the machine itself.
///
/// # Errors
/// When the file exists and cannot be read.
pub(crate) fn servers_of_this_machine() -> io::Result<Vec<SocketAddr>> {
    let mut text = Vec::new();
    match File::open("/etc/resolv.conf") {
        Ok(file) => drop(file.take(BYTES_MAX).read_to_end(&mut text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(servers(&text))
}

/// The servers in the text of the file. All other settings have their defaults.
fn servers(text: &[u8]) -> Vec<SocketAddr> {
    let text = String::from_utf8_lossy(text);
    let named = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("nameserver")?;
        server(rest.strip_prefix([' ', '\t'])?.split_whitespace().next()?)
    });
    let mut found: Vec<SocketAddr> = named.take(SERVERS_MAX).collect();
    if found.is_empty() {
        found.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
    }
    found
}

/// An address; the address of a link has the interface after it.
fn server(text: &str) -> Option<SocketAddr> {
    let (address, interface) = match text.split_once('%') {
        Some((address, interface)) => (address, Some(interface)),
        None => (text, None),
    };
    match (address.parse().ok()?, interface) {
        (address, None) => Some(SocketAddr::new(address, PORT)),
        (IpAddr::V6(address), Some(interface)) => {
            let scope = interface.parse().ok().or_else(|| number(interface))?;
            Some(SocketAddrV6::new(address, PORT, 0, scope).into())
        }
        (IpAddr::V4(_), Some(_)) => None,
    }
}

/// The kernel's number of an interface.
fn number(interface: &str) -> Option<u32> {
    if interface.contains('/') {
        return None;
    }
    let number = fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"));
    number.ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &[u8]) -> Vec<String> {
        servers(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_c_library_accepts_is_accepted() {
        for text in [
            &b"nameserver 192.0.2.53\n"[..],
            b"# L\xf6sung\noptions no-such-option:7 edns0\nnameserver\t192.0.2.53 192.0.2.54\n",
            b"nonsense\nnameserver of-no-address\nnameserverx 192.0.2.1\nnameserver 192.0.2.53",
            b"search a b c\nnameserver 192.0.2.53\r\n",
        ] {
            assert_eq!(told(text), ["192.0.2.53:53"]);
        }
        for text in [&b""[..], b"search example.org\n", b"nameserver\n"] {
            assert_eq!(told(text), ["127.0.0.1:53"]);
        }
        let six = b"nameserver 2001:db8::1\nnameserver fe80::1%7\nnameserver fe80::2%/../lo\n";
        assert_eq!(told(six), ["[2001:db8::1]:53", "[fe80::1%7]:53"]);
        let many = b"nameserver 192.0.2.1\n".repeat(9);
        assert_eq!(told(&many).len(), SERVERS_MAX);
    }
}
