//! The evaluation of the NFSP paper (its section 4): a site that grows by adding machines, compared with one central server.
//!
//! - [`Figure3`]: the cost of a file that another metadata server has made.
//! - [`Bandwidth`]: the total rate of many clients that read (Figure 4) and write (Figure 5).
//!
//! Every machine is a network namespace with a network card of fixed speed, shared by all its connections.
//!
//! What must never enter: sites far apart.

mod bandwidth;
mod bytes;
mod figure_3;
mod machines;
mod series;
mod shown;
mod streams;

pub(crate) use bandwidth::Bandwidth;
pub(crate) use figure_3::Figure3;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bench::program;
use testbed::Requirements;

use crate::experiment::Peer;

/// The speed of the network card of each machine in each direction, in bits a second: low enough that two processors suffice for
/// all machines.
const CARD: u64 = 20_000_000;

/// The bytes that can wait in front of a card: all active requests of a client at the largest number of data servers.
const QUEUE: u64 = 4 << 20;

/// The same where clients write. The answer to a data server that asks for its lease of three seconds waits behind what clients send it: with the
/// longer queue 1.7 s, and now and then too long.
const QUEUE_WRITING: u64 = 2 << 20;

/// The payload rate of TCP at that speed, in bytes a second: 1448 of the 1500 bytes of a packet.
const PAYLOAD: f64 = CARD as f64 / 8.0 * 1448.0 / 1500.0;

/// The one-way time between machines.
const ONE_WAY: Duration = Duration::from_micros(100);

/// The smallest possible unit; the paper's is 8 KiB at five times the speed.
const STRIPE_UNIT: u64 = 64 << 10;

/// The series of the central server.
const GANESHA: &str = "NFS-Ganesha";

fn needs() -> Requirements {
    Requirements::site().with_wan().with_ganesha()
}

fn peers() -> Result<Vec<Peer>> {
    let version = program::version(Path::new("ganesha.nfsd"), "-v")?;
    let name = GANESHA.to_owned();
    Ok(vec![Peer { name, version }])
}

/// The places of machines, for pages.
fn where_words(queue: u64) -> String {
    format!(
        "Each client, data server and metadata server is a network namespace; its network card carries {} Mbit/s in each direction, shared by \
         all that it talks to, {} KiB can wait in front of it, and the way to every other machine takes {} ms. ",
        CARD / 1_000_000,
        queue >> 10,
        ONE_WAY.as_secs_f64() * 1e3
    )
}
