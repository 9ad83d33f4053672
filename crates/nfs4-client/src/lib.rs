//! A small NFSv4.1 and 4.2 client: for tests that must see every byte of a reply, and for
//! benchmarks that must not wait for a kernel.
//!
//! - [`Client`] is the usual interface: it connects, keeps its lease, and has a call for everything that a
//!   file system does. [`Client::as_user`] makes the same calls as another user.
//! - [`Session`] is the level below: slots, several connections, reconnection, and requests that are
//!   executed exactly once although connections break.
//! - [`Connection`] is the lowest level: one TCP stream, for tests that choose session, slot and
//!   sequence number themselves.
//! - [`Striped`] is a file that is read and written at its data servers (pNFS).
//! - [`ops`] has short forms of operations, for requests that no call of [`Client`] makes.
//!
//! Nothing is cached here, and nothing is retried that could then happen twice. Lost state is
//! not reclaimed automatically: the caller learns of the loss and decides.
//!
//! What must never enter: knowledge of any particular server, and server code.
//!
//! ```no_run
//! use nfs4_client::{Client, How, Options, StableHow4};
//!
//! # async fn example() -> Result<(), nfs4_client::Error> {
//! let client = Client::connect(Options::at(([127, 0, 0, 1], 2049).into())).await?;
//! let root = client.mount("/export").await?;
//! let file = client.open(&root, "greeting", &How::create(0o644)).await?;
//! client.write(&file, 0, "hello".into(), StableHow4::FileSync).await?;
//! client.close(&file).await?;
//! client.leave().await
//! # }
//! ```

#![forbid(unsafe_code)]

mod back_channel;
mod calls;
mod client;
mod connection;
mod dial;
mod error;
pub mod ops;
mod options;
mod session;
mod slots;
mod striped;

pub use back_channel::{CALLBACK_PROGRAM, Callbacks, NoCallbacks};
pub use calls::{Access, Entry, Held, How, LockAnswer, OpenFile, Page, STAT};
pub use client::Client;
pub use connection::Connection;
pub use dial::{connect, connect_from};
pub use error::Error;
pub use nfs4::StableHow4;
pub use options::{Dial, Options};
pub use session::Session;
pub use slots::Slot;
pub use striped::{DataServers, Striped};
