//! What being prepared costs while nothing fails: the same work with leases as they are, and ten times less frequent. A
//! second set with leases as they are shows by how much two sets differ that do not.
//!
//! What must never enter: turns of one set without those of the other right beside them.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_client::{Client, How, StableHow4};
use serde::Serialize;

use crate::sites::Sites;

/// The size of each file, in bytes.
const SIZE: usize = 4096;

/// What was measured, in microseconds for each file, by round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cost {
    /// With leases as they are by default.
    pub(crate) usual_us: Vec<f64>,
    /// The same at another set.
    pub(crate) again_us: Vec<f64>,
    /// With leases ten times as long.
    pub(crate) rare_us: Vec<f64>,
}

/// Gives each set its turns, `rounds` times; who comes first changes. The order is that of the fields of [`Cost`].
pub(crate) async fn measure(sets: [&Sites; 3], rounds: usize, files: usize) -> Result<Cost> {
    let mut clients = Vec::new();
    for sites in sets {
        sites.replicas[0].ask(&["durability", "/", "relaxed"])?;
        clients.push(sites.replicas[0].target().client().await?);
    }
    let mut times = [const { Vec::new() }; 3];
    for round in 0..rounds {
        for place in 0..sets.len() {
            let which = (round + place) % sets.len();
            let took = turn(&clients[which], round, files).await?;
            times[which].push(took.as_secs_f64() * 1e6 / files as f64);
        }
    }
    for (client, _) in clients {
        client.leave().await?;
    }
    let [usual_us, again_us, rare_us] = times;
    Ok(Cost {
        usual_us,
        again_us,
        rare_us,
    })
}

/// Makes files; the first of them wins control, and is not counted.
async fn turn((client, root): &(Client, NfsFh4), round: usize, files: usize) -> Result<Duration> {
    let name = format!("round-{round}");
    let home = client.create_directory(root, &*name, 0o755).await?;
    make(client, &home, "first").await?;
    let began = Instant::now();
    for file in 0..files {
        make(client, &home, &format!("file-{file}")).await?;
    }
    Ok(began.elapsed())
}

async fn make(client: &Client, home: &NfsFh4, name: &str) -> Result<()> {
    let file = client.open(home, name, &How::create_new(0o644)).await?;
    let data = Bytes::from_static(&[5; SIZE]);
    client.write(&file, 0, data, StableHow4::FileSync).await?;
    Ok(client.close(&file).await?)
}
