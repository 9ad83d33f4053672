//! Clients of a member of a set read at the data servers of its pool, and nothing there that another member has changed.

use std::net::SocketAddr;

use nfs4::{LayoutIomode4, NfsStat4};
use nfs4_client::{DataServers, OpenFile, Striped};
use rustix::process::Signal;
use tokio::runtime::Runtime;

use super::*;

/// A client of the member that has a file open, and its layout.
struct Reader {
    client: Client,
    file: OpenFile,
    known: DataServers,
    layout: Striped,
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

impl Reader {
    async fn at(server: SocketAddr, name: &str) -> Reader {
        let client = Client::connect(Options::at(server)).await.unwrap();
        client.reclaim_complete().await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, name, &How::read()).await.unwrap();
        let known = DataServers::reached(Options::at);
        let layout = Reader::layout(&client, &file, &known).await;
        Reader {
            client,
            file,
            known,
            layout,
        }
    }

    /// A layout, as soon as there is one.
    async fn layout(client: &Client, file: &OpenFile, known: &DataServers) -> Striped {
        let begun = Instant::now();
        loop {
            let read = LayoutIomode4::Read;
            match Striped::open(client, file, read, known).await {
                Ok(layout) => return layout,
                Err(error) => {
                    let again = [
                        NfsStat4::BadLayout,
                        NfsStat4::RecallConflict,
                        NfsStat4::Delay,
                    ];
                    let is_later = error.status().is_some_and(|status| again.contains(&status));
                    assert!(is_later && begun.elapsed() < PATIENCE, "{error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn renew(&mut self) {
        self.layout = Reader::layout(&self.client, &self.file, &self.known).await;
    }

    /// What a data server says of a stripe: the byte of which it consists.
    async fn read(&self, stripe: u8) -> Result<u8, NfsStat4> {
        let read = self
            .layout
            .read(u64::from(stripe) * UNIT as u64, UNIT as u32);
        let read = read.await.map_err(|error| error.status().unwrap())?;
        assert_eq!(read.data.len(), UNIT);
        assert!(read.data.iter().all(|byte| *byte == read.data[0]));
        Ok(read.data[0])
    }

    /// Reads all stripes. A machine that is busy may let a lease run out meanwhile, which is refused.
    async fn finds(&mut self, first: u8) {
        let begun = Instant::now();
        for stripe in 0..STRIPES {
            while let Err(status) = self.found(stripe, first).await {
                assert_eq!(status, NfsStat4::Stale);
                assert!(begun.elapsed() < PATIENCE, "nothing is read there");
                self.renew().await;
            }
        }
    }

    async fn found(&self, stripe: u8, first: u8) -> Result<(), NfsStat4> {
        assert_eq!(self.read(stripe).await?, first + stripe);
        Ok(())
    }

    async fn is_fenced(&self) {
        for stripe in 0..STRIPES {
            assert_eq!(self.read(stripe).await, Err(NfsStat4::Stale), "{stripe}");
        }
    }
}

#[test]
fn a_client_reads_at_the_data_servers_until_the_file_is_changed_at_another_site() {
    let set = Set::new();
    block_on(write(&set.servers[0], "file", &striped_bytes(1)));
    set.same("file", &striped_bytes(1));
    let runtime = runtime();
    let mut reader = runtime.block_on(Reader::at(set.servers[1].address, "file"));
    for (first, writer) in [(11, 2), (21, 0), (31, 1)] {
        runtime.block_on(reader.finds(first - 10));
        block_on(write(&set.servers[writer], "file", &striped_bytes(first)));
        if writer != 1 {
            runtime.block_on(reader.is_fenced());
        }
        assert_eq!(
            block_on(read(&set.servers[1], "file")),
            striped_bytes(first)
        );
        runtime.block_on(reader.renew());
    }
    runtime.block_on(reader.finds(31));
    // Clients write through the member.
    runtime.block_on(async {
        let root = reader.client.mount("/export").await.unwrap();
        let file = reader.client.open(&root, "file", &How::create(0o644)).await;
        let file = file.unwrap();
        let asked = reader
            .client
            .layout(&file.handle, file.stateid, LayoutIomode4::ReadWrite);
        let refused = asked.await.err().and_then(|error| error.status());
        assert_eq!(refused, Some(NfsStat4::LayoutUnavailable));
    });
    until("all of it was read there", || {
        let read = set.machines.iter().map(|machine| {
            let holding = status(machine).holding.unwrap();
            holding.read_bytes
        });
        read.sum::<u64>() >= 4 * u64::from(STRIPES) * UNIT as u64
    });
}

#[test]
fn a_data_server_that_stands_still_reads_nothing_out_that_was_changed_meanwhile() {
    let set = Set::new();
    block_on(write(&set.servers[0], "file", &striped_bytes(1)));
    set.same("file", &striped_bytes(1));
    let runtime = runtime();
    let mut reader = runtime.block_on(Reader::at(set.servers[1].address, "file"));
    runtime.block_on(reader.finds(1));
    let still = &set.data_servers[1];
    still.signal(Signal::STOP);
    // Answered though the layout's data server says nothing.
    block_on(write(&set.servers[0], "file", &striped_bytes(11)));
    still.signal(Signal::CONT);
    runtime.block_on(reader.is_fenced());
    set.same("file", &striped_bytes(11));
    runtime.block_on(reader.renew());
    runtime.block_on(reader.finds(11));
}

#[test]
fn a_member_that_stands_still_lets_nobody_read_at_its_data_servers_what_others_change() {
    let set = Set::configured(&format!("{HASTY}[time]\ngrace_seconds = 0\n"));
    block_on(write(&set.servers[0], "file", &striped_bytes(1)));
    set.same("file", &striped_bytes(1));
    let runtime = runtime();
    let mut reader = runtime.block_on(Reader::at(set.servers[1].address, "file"));
    runtime.block_on(reader.finds(1));
    set.servers[1].signal(Signal::STOP);
    // Other members go on when it does not answer clients any more, by itself or at its data servers.
    block_on(write(&set.servers[2], "file", &striped_bytes(11)));
    runtime.block_on(reader.is_fenced());
    set.servers[1].signal(Signal::CONT);
    // It starts anew, at another port.
    set.until_ready();
    runtime.block_on(reader.is_fenced());
    let address = set.member().place.status().listen[0];
    let mut reader = runtime.block_on(Reader::at(address, "file"));
    runtime.block_on(reader.finds(11));
}
