//! The service's interface to a transport connection.

use std::net::SocketAddr;

use async_trait::async_trait;
use oncrpc::Credentials;
use xdr::{Bytes, Rope};

use crate::state::ConnectionId;

/// Why a call to a client got no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// The connection broke before the answer came.
    #[error("the connection is closed")]
    Closed,
    /// The client did not answer in time.
    #[error("the client did not answer in time")]
    TimedOut,
    /// The client refused the call or sent something other than an answer.
    #[error("the client refused the call: {0}")]
    Refused(String),
}

/// A connection from a client, over which it can also be called back (RFC 8881, section 2.10.3.1).
#[async_trait]
pub trait Connection: Send + Sync {
    /// Its number, never used again.
    fn id(&self) -> ConnectionId;

    /// The client's address.
    fn peer(&self) -> SocketAddr;

    /// A request of a session came over it, so a client uses it.
    fn session_used(&self);

    /// Calls procedure `procedure` of version 1 of the client's `program` with encoded arguments, under
    /// these credentials, and waits for the encoded results.
    async fn call_back(
        &self,
        program: u32,
        procedure: u32,
        credentials: &Credentials,
        arguments: Rope,
    ) -> Result<Bytes, CallbackError>;
}
