//! Clients at three metadata servers that have joined, and at the first one, work on the same names, files and locks, while one of them is
//! killed and started again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;

use nfs4::{NfsFh4, NfsLockType4};
use nfs4_client::{Held, LockAnswer};

use super::*;

#[path = "homes.rs"]
mod homes;

/// Long enough for no client to lose anything on a busy machine, and short enough to be waited for.
const LEASE: &str = "[time]\nlease_seconds = 20\n";

/// A running pool: the first metadata server, and three that have joined, with these lines of configuration.
fn four_metadata_servers(joined: &str) -> ([Site; 4], [Running; 4]) {
    let joined = format!("{LEASE}{joined}");
    let sites = [LEASE, &joined, &joined, &joined].map(Site::configured);
    let first = &sites[0];
    succeed(&pool(first, &["create", "--address", &address(first)]));
    let mut servers = vec![first.place.start()];
    for site in &sites[1..] {
        let token = succeed(&pool(first, &["invite", "--metadata-server"]));
        succeed(&join(site, token.trim_end()));
        servers.push(start(site));
    }
    let servers = servers
        .try_into()
        .unwrap_or_else(|_| panic!("four were started"));
    (sites, servers)
}

fn at(site: &Site) -> SocketAddr {
    address(site).parse().unwrap()
}

async fn client_at(server: SocketAddr) -> Result<(Client, NfsFh4), Error> {
    let client = Client::connect(Options::at(server)).await?;
    client.reclaim_complete().await?;
    let root = client.mount("/export").await?;
    Ok((client, root))
}

/// What one makes, the next renames and the one after it reads and removes; each is seen by all at once.
async fn go_round(servers: &[SocketAddr], round: &str) -> Result<(), Error> {
    let mut clients = Vec::new();
    for server in servers {
        clients.push(client_at(*server).await?);
    }
    let count = clients.len();
    for one in 0..count {
        let [(maker, root), (mover, there), (remover, here)] =
            [0, 1, 2].map(|next| &clients[(one + next) % count]);
        let (directory, text) = (
            format!("{round} {one}"),
            format!("made in {round} by {one}"),
        );
        let made = maker.create_directory(root, &*directory, 0o755).await?;
        let file = maker.open(&made, "made", &How::create(0o644)).await?;
        let bytes = text.clone().into_bytes().into();
        maker.write_all(&file, 0, &bytes).await?;
        maker.close(&file).await?;
        let found = mover.lookup(there, &*directory).await?;
        mover.rename(&found, "made", &found, "moved").await?;
        let found = remover.lookup(here, &*directory).await?;
        let gone = remover.lookup(&found, "made").await;
        assert_eq!(status_of(gone), Some(NfsStat4::NoEnt));
        let file = remover.open(&found, "moved", &How::read()).await?;
        assert_eq!(remover.read_to_end(&file).await?.to_vec(), text.as_bytes());
        remover.close(&file).await?;
        remover.remove(&found, "moved").await?;
        for (client, root) in &clients {
            let empty = client.lookup(root, &*directory).await?;
            assert!(client.readdir(&empty, SIZE).await?.is_empty());
        }
        maker.remove(root, &*directory).await?;
    }
    for (client, _) in clients {
        client.leave().await?;
    }
    Ok(())
}

/// Waits for the lock.
async fn locked(client: &Client, file: &nfs4_client::OpenFile) -> Result<Held, Error> {
    loop {
        let kind = NfsLockType4::Write;
        if let LockAnswer::Granted(held) = client.lock(file, "counter", kind, 0, 100).await? {
            return Ok(held);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Makes the number in the file of a directory one larger under its lock, and returns it.
async fn count_up(server: SocketAddr, directory: Option<&str>) -> Result<u64, Error> {
    let (client, root) = client_at(server).await?;
    let above = match directory {
        Some(directory) => client.lookup(&root, directory).await?,
        None => root,
    };
    let file = client.open(&above, "counter", &How::write()).await?;
    let held = locked(&client, &file).await?;
    let bytes = client.read_to_end(&file).await?.to_vec();
    let number = String::from_utf8(bytes)
        .unwrap()
        .trim()
        .parse::<u64>()
        .unwrap()
        + 1;
    let bytes = format!("{number:20}").into_bytes().into();
    client.write_all(&file, 0, &bytes).await?;
    client.unlock(&held, 0, 100).await?;
    client.close(&file).await?;
    client.leave().await?;
    Ok(number)
}

/// What clients have counted.
#[derive(Default)]
struct Counted {
    /// Each number that one was answered.
    numbers: BTreeSet<u64>,
    by_server: [u64; 3],
    /// So often nobody knows whether it was counted.
    unknown: u64,
}

/// Counts until it is enough, whatever becomes of the server.
fn count(
    counted: &Mutex<Counted>,
    directory: Option<&str>,
    (place, server): (usize, SocketAddr),
    enough: &AtomicBool,
) {
    while !enough.load(Ordering::SeqCst) {
        let number = block_on(count_up(server, directory));
        let mut counted = counted.lock().unwrap();
        match number {
            Ok(number) => {
                assert!(counted.numbers.insert(number), "two have counted {number}");
                counted.by_server[place] += 1;
            }
            Err(_) => {
                counted.unknown += 1;
                drop(counted);
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Sets what others wait for, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn clients_at_three_joined_servers_share_names_files_and_locks_while_one_is_killed() {
    let (sites, servers) = four_metadata_servers("");
    block_on(write(
        &servers[0],
        "counter",
        format!("{:20}", 0).as_bytes(),
    ));
    let servers = work_while_servers_are_killed(&sites, servers, None);
    let last: Vec<Vec<u8>> = servers
        .iter()
        .map(|server| block_on(read(server, "counter")))
        .collect();
    assert!(last.iter().all(|bytes| *bytes == last[0]), "{last:?}");
    assert_eq!(block_on(listed(&servers[2])).len(), 1);
}

/// Clients at the joined servers count in the file of a directory, and go round, while one of them and the first one are killed and started
/// again. None has counted what another one has, and nothing that was answered is lost.
fn work_while_servers_are_killed(
    sites: &[Site; 4],
    servers: [Running; 4],
    directory: Option<&str>,
) -> [Running; 4] {
    let addresses = [1, 2, 3].map(|place: usize| at(&sites[place]));
    block_on(go_round(&addresses, "before")).unwrap();
    let (counted, enough) = (Mutex::new(Counted::default()), AtomicBool::new(false));
    let by = |place: usize| counted.lock().unwrap().by_server[place];
    let until_more = || {
        let goals = [0, 1, 2].map(|place| by(place) + 5);
        until("each has counted", || {
            let mut all = goals.iter().enumerate();
            all.all(|(place, goal)| by(place) >= *goal)
        });
    };
    let servers = std::thread::scope(|scope| {
        let [first, one, victim, other] = servers;
        let counting: Vec<_> = (0..3)
            .map(|place| {
                let (counted, enough, server) = (&counted, &enough, addresses[place]);
                scope.spawn(move || count(counted, directory, (place, server), enough))
            })
            .collect();
        let ends = Ends(&enough);
        until_more();
        victim.kill();
        let left = [addresses[2], first.address, addresses[0]];
        block_on(go_round(&left, "meanwhile")).unwrap();
        let victim = start(&sites[2]);
        until_more();
        first.kill();
        let first = sites[0].place.start();
        block_on(go_round(&addresses, "behind")).unwrap();
        until_more();
        drop(ends);
        for one in counting {
            one.join().unwrap();
        }
        [first, one, victim, other]
    });
    let last = block_on(count_up(addresses[0], directory)).unwrap() - 1;
    let counted = counted.lock().unwrap();
    let answered = counted.numbers.len() as u64;
    assert!(answered <= last && last <= answered + counted.unknown);
    servers
}
