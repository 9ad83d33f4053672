//! The control connections of a home: its messages to the data servers of its pool, besides reads and writes.

use std::net::SocketAddr;
use std::time::Duration;

use pool::{DataServerNumber, Holding, ToDataServer};

/// How a home reaches the data servers of its pool.
///
/// For code that implements it over the connections between servers (`peer`): messages are `pool::ToDataServer` in one direction and
/// `pool::ToHome` in the other. Pass each message of a data server to [`crate::Striped::receive`], one after the other, in order.
/// `data_server::DataServer::receive` and `data_server::Outward` are the same pair at the other end. A broken connection may lose messages,
/// but never reorder or duplicate them: data servers ask for their lease once a second, and lost messages are then repeated. The connection
/// (its certificate) identifies the sender, not the message. Leases carry the key that seals handles, so connections are encrypted.
pub trait Control: Send + Sync {
    /// Sends a message to a data server, after all earlier ones or not at all. Does not wait.
    fn send(&self, to: DataServerNumber, message: ToDataServer);

    /// The current NFSv4.1 address of the data server. `None` if it is unknown.
    fn address(&self, server: DataServerNumber) -> Option<SocketAddr>;

    /// How much the data server stores and could store, by its last report. `None` if it has not reported since this home began.
    fn holding(&self, server: DataServerNumber) -> Option<Holding>;

    /// How long from now on no other server changes the files without asking, if other servers may
    /// (`pool::home::HomeSettings::shares_files`). Data servers serve clients at most this long. Does not wait.
    fn clients_left(&self) -> Duration;
}
