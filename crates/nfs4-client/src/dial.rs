//! The local port of a connection to a server.
//!
//! Servers trust AUTH_SYS only from privileged ports, which on the client's machine only the superuser can
//! use. What must never enter: anything that is sent.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

use socket2::{Domain, Protocol, Socket, Type};

/// The privileged ports that the Linux client uses too; lower ones belong to services.
const FIRST_PORT: u16 = 665;
const PORTS: u16 = 1024 - FIRST_PORT;

/// Connects from a privileged port, if this process may use one, otherwise from any.
///
/// # Errors
/// The errors of the operating system; `AddrInUse` when all privileged ports are in use.
pub fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    connect_from(any, server)
}

/// The same from this address of the machine.
///
/// # Errors
/// Those of [`connect`].
pub fn connect_from(address: IpAddr, server: SocketAddr) -> io::Result<TcpStream> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    for _ in 0..PORTS {
        // Other processes start elsewhere, so that they seldom collide.
        let turn = NEXT.fetch_add(1, Ordering::Relaxed);
        let start = (std::process::id() % u32::from(PORTS)) as u16;
        let port = FIRST_PORT + turn.wrapping_add(start) % PORTS;
        match connect_at(SocketAddr::new(address, port), server) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return connect_at(SocketAddr::new(address, 0), server);
            }
            Err(error) if is_taken(&error) => {}
            outcome => return outcome,
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

/// Whether another connection to the server has the port, or had it a moment ago.
fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable
    )
}

fn connect_at(own: SocketAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let domain = Domain::for_address(server);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(own.port() != 0)?;
    socket.bind(&own.into())?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}
