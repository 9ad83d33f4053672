//! Two sites that change one directory, sometimes or always: the times of single updates.
//!
//! Each site's client makes files of 4 KiB at a constant rate, so that a slow answer does not reduce the load if
//! it comes before the next update is due. A share of the files is in a directory that both use, the others in the client's
//! own directory.
//!
//! What must never enter: how the servers are configured.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::statistics::LATENESS;
use bench::tally::Tally;
use bench::trial::{self, Outcome};
use bytes::Bytes;
use fastrand::Rng;
use nfs4::{Bitmap4, NfsFh4, StableHow4};
use nfs4_client::{Client, How};

use crate::field::runtime;
use crate::replay::Requests;
use crate::sites::{Server, Sites};

/// The size of a file.
const SIZE: usize = 4096;

/// The interval between updates of a client.
pub(super) const PACE: Duration = Duration::from_millis(100);

/// The directory that both use.
const COMMON: &str = "common";

/// The amount of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// The percentage of updates in the common directory.
    pub(super) percent: u64,
    /// The length of the work.
    pub(super) length: Duration,
    /// Selects these updates.
    pub(super) seed: u64,
}

/// The results of one client.
#[derive(Debug, Default)]
struct Done {
    own: Tally,
    common: Tally,
    delays: u64,
    /// Content by path.
    files: BTreeMap<String, Bytes>,
}

/// Lets both sites work in a new directory, and compares everything at both afterwards.
///
/// # Errors
/// Fails when a file is missing or different at either site.
pub(super) fn measure(sites: &Sites, home: &str, load: Load) -> Result<Outcome> {
    let [first, second] = [0, 1].map(|number: usize| sites.replicas.get(number));
    let (first, second) = (first.context("no site")?, second.context("no second site")?);
    runtime()?.block_on(prepare(first, home))?;
    sites.wait_for_quiet()?;
    let before = sites.sent()?;
    let began = Instant::now();
    let both = runtime()?.block_on(async {
        tokio::try_join!(client(first, home, 0, load), client(second, home, 1, load))
    });
    let took = began.elapsed();
    let (mut here, there) = both?;
    sites.wait_for_quiet()?;
    let wire = sites.sent()?.since(before).wire;
    here.files.extend(there.files);
    for server in [first, second] {
        runtime()?.block_on(check(server, home, &here.files))?;
    }
    sites.check_running()?;
    here.own.absorb(&there.own);
    here.common.absorb(&there.common);
    let mut outcome = Outcome::new();
    for (name, tally) in [("own", &here.own), ("common", &here.common)] {
        if tally.operations() == 0 {
            continue;
        }
        let [median, most] = [0.5, 0.95].map(|share| tally.percentile(share) as f64);
        outcome.insert(format!("{name}_mean_us"), tally.mean());
        outcome.insert(format!("{name}_median_us"), median);
        outcome.insert(format!("{name}_most_us"), most);
    }
    let updates = here.files.len() as f64;
    let more = [
        (LATENESS, sites.lateness()?.as_secs_f64() * 1e6),
        ("updates", updates),
        ("updates_per_s", updates / took.as_secs_f64()),
        ("delays", (here.delays + there.delays) as f64),
        ("wire_bytes_per_update", wire as f64 / updates.max(1.0)),
    ];
    outcome.extend(trial::named(more));
    Ok(outcome)
}

/// A site's own directory.
fn own(site: u64) -> String {
    format!("site-{site}")
}

async fn prepare(server: &Server, home: &str) -> Result<()> {
    let (client, root) = server.target().client().await?;
    let home = client.create_directory(&root, home, 0o755).await?;
    for name in [COMMON.to_owned(), own(0), own(1)] {
        client.create_directory(&home, &*name, 0o755).await?;
    }
    Ok(client.leave().await?)
}

async fn client(server: &Server, home: &str, site: u64, load: Load) -> Result<Done> {
    // A client that waits for another site's control may wait for long.
    let patience = Duration::from_secs(60);
    let (client, root) = server.target().client_with(patience).await?;
    let home = client.lookup(&root, home).await?;
    let (common, own_name) = (client.lookup(&home, COMMON).await?, own(site));
    let own = client.lookup(&home, &*own_name).await?;
    let mut requests = Requests::of(client.clone());
    let mut random = Rng::with_seed(load.seed * 2 + site);
    let mut done = Done::default();
    let began = Instant::now();
    let mut due = began;
    while began.elapsed() < load.length {
        tokio::time::sleep_until(due.into()).await;
        // After a late answer the interval begins again; the client does not catch up.
        due = due.max(Instant::now()) + PACE;
        let number = done.files.len();
        let name = format!("file-{site}-{number}");
        let content = content(&name);
        let is_common = random.u64(..100) < load.percent;
        let (place, folder) = match is_common {
            true => (&common, COMMON),
            false => (&own, own_name.as_str()),
        };
        let at = Instant::now();
        update(&mut requests, place, &name, content.clone()).await?;
        let tally = if is_common {
            &mut done.common
        } else {
            &mut done.own
        };
        tally.add(at, 1);
        done.files.insert(format!("{folder}/{name}"), content);
    }
    done.delays = requests.counts.delays;
    client.leave().await?;
    Ok(done)
}

/// Makes, writes and closes a file.
async fn update(requests: &mut Requests, place: &NfsFh4, name: &str, content: Bytes) -> Result<()> {
    let how = How::create_new(0o644);
    let (found, stateid) = requests.open(place, name, &how).await?;
    let file = &found.handle;
    let write = requests.write(file, stateid, 0, content, StableHow4::FileSync);
    write.await?;
    requests.close(file, stateid).await?;
    Ok(())
}

/// The content of a file: different for every name.
fn content(name: &str) -> Bytes {
    let line = format!("{name}\n");
    let whole: Vec<u8> = line.bytes().cycle().take(SIZE).collect();
    whole.into()
}

/// Compares everything that was made, at one server.
async fn check(server: &Server, home: &str, files: &BTreeMap<String, Bytes>) -> Result<()> {
    let (client, root) = server.target().client().await?;
    let home = client.lookup(&root, home).await?;
    let mut listed = 0;
    for folder in [COMMON.to_owned(), own(0), own(1)] {
        let place = client.lookup(&home, &*folder).await?;
        listed += client.readdir(&place, Bitmap4::EMPTY).await?.len();
        let prefix = format!("{folder}/");
        let here = files.iter().filter_map(|(path, content)| {
            let name = path.strip_prefix(&prefix)?;
            Some((name, content))
        });
        for (name, content) in here {
            let found = read(&client, &place, name).await;
            let found = found.with_context(|| format!("{folder}/{name} is missing"))?;
            ensure!(found == *content, "{folder}/{name} differs");
        }
    }
    ensure!(
        listed == files.len(),
        "{listed} names are there where {} were made",
        files.len()
    );
    Ok(client.leave().await?)
}

async fn read(client: &Client, place: &NfsFh4, name: &str) -> Result<Bytes> {
    let file = client.open(place, name, &How::read()).await?;
    let content = client.read_to_end(&file).await?;
    client.close(&file).await?;
    Ok(content)
}
