//! Resolves and tries an address when it is entered, and not only when it is needed.
//!
//! What must never enter: the service at the address.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use super::SetCommandError;

/// How long a server may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(3);

/// Resolves an address, `host:port`.
///
/// # Errors
/// [`SetCommandError::Unresolved`] when there is no such host.
pub fn resolve(address: &str) -> Result<Vec<SocketAddr>, SetCommandError> {
    let unresolved = |reason: String| SetCommandError::Unresolved {
        address: address.to_owned(),
        reason,
    };
    let found = address.to_socket_addrs();
    let found = found.map_err(|error| unresolved(error.to_string()))?;
    let found: Vec<SocketAddr> = found.collect();
    match found.is_empty() {
        true => Err(unresolved("the name has no address".to_owned())),
        false => Ok(found),
    }
}

/// Why no connection to an address is possible from here, for people; `None` when a connection is accepted. Waits at
/// most some seconds for each address of a name.
#[must_use]
pub fn silence_at(address: &str) -> Option<String> {
    let found = match resolve(address) {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    let mut last = None;
    for at in found {
        match TcpStream::connect_timeout(&at, PATIENCE) {
            Ok(_) => return None,
            Err(error) => last = Some(error),
        }
    }
    let reason = last.map_or_else(String::new, |error| format!(": {error}"));
    Some(format!("nobody answers at {address}{reason}"))
}

/// Why an address seems not to belong to this machine, for people; `None` if it does.
///
/// # Errors
/// [`SetCommandError::Unresolved`] when there is no such host.
pub fn foreignness(address: &str) -> Result<Option<String>, SetCommandError> {
    let found = resolve(address)?;
    if found.iter().any(|at| is_local(at.ip())) {
        return Ok(None);
    }
    let found: Vec<String> = found.iter().map(|at| at.ip().to_string()).collect();
    Ok(Some(format!(
        "{address} leads to {}, which is no address of this machine; that is right only when something passes connections on from there",
        found.join(", ")
    )))
}

/// The system refuses to bind a socket to an address that the machine does not have. It also refuses while every port
/// is taken, or without support for the protocol.
pub(crate) fn is_local(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::AddrInUse,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_name_that_nobody_has_and_a_port_where_nobody_listens_are_told() {
        let nowhere = "no-such-host.invalid:7643";
        let error = resolve(nowhere).unwrap_err().to_string();
        assert!(
            error.contains(nowhere) && error.contains("cannot be looked up"),
            "{error}"
        );
        assert!(foreignness(nowhere).is_err());
        assert!(silence_at(nowhere).unwrap().contains("cannot be looked up"));

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert_eq!(silence_at(&address), None);
        drop(listener);
        let silence = silence_at(&address).unwrap();
        assert!(silence.contains("nobody answers"), "{silence}");
    }

    #[test]
    fn addresses_of_others_are_known() {
        assert_eq!(foreignness("127.0.0.1:1").unwrap(), None);
        // A documentation address (RFC 5737): no machine has it.
        let told = foreignness("192.0.2.1:7643").unwrap().unwrap();
        assert!(told.contains("no address of this machine"), "{told}");
    }
}
