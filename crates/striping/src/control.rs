//! The control connections of a home: what it says to the data servers of its pool besides reading and writing.

use std::net::SocketAddr;
use std::time::Duration;

use pool::{DataServerNumber, Holding, ToDataServer};

/// How a home reaches the data servers of its pool.
///
/// For code that implements it over the connections between servers (`peer`): messages are
/// `pool::ToDataServer` one way and `pool::ToHome` the other way. What a data server sends is
/// handed to [`crate::Striped::receive`], one message after the other, as they have come; at the
/// other end `data_server::DataServer::receive` and `data_server::Outward` are the same pair. A
/// connection that breaks may lose messages, never change their order or bring one twice: data
/// servers ask for their lease once a second, and everything that was lost is said again then. Who
/// a message is from is for the connection to say (its certificate), not for the message. Leases
/// carry the key that handles are sealed with, so connections are encrypted.
pub trait Control: Send + Sync {
    /// Sends a message to a data server: behind all that were sent to it before, or not at all. Does not wait.
    fn send(&self, to: DataServerNumber, message: ToDataServer);

    /// Where the data server answers NFSv4.1 clients, by what is known now; `None` when nothing is.
    fn address(&self, server: DataServerNumber) -> Option<SocketAddr>;

    /// How much the data server keeps and could keep, by what it has said last; `None` when it has said nothing since this home began.
    fn holding(&self, server: DataServerNumber) -> Option<Holding>;

    /// How long from now on nobody else changes the files without asking, where others may (`pool::home::HomeSettings::shares_files`):
    /// as long, at most, data servers serve clients. Does not wait.
    fn clients_left(&self) -> Duration;
}
