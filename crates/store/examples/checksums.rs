//! The cost of checksums of contents: processor time of bulk writes and reads, with and without them.
//!
//! ```text
//! cargo run --release -p store --example checksums -- [mebibytes] [rounds] [directory]
//! ```
//!
//! Both variants take turns, file by file, so that other load on the machine affects both alike. Processor time is compared, not
//! elapsed time. No network and no protocol are included, so the share of a server's throughput is smaller than the printed numbers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use store::{NewStore, Store, StoreOptions};
use vfs::{
    AccessCheck, Creation, Credentials, FileSystem, Name, NewObject, ObjectId, SetAttributes,
    Stability,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const MEBIBYTE: u64 = 1 << 20;
/// How often each file is read.
const READS: u32 = 4;

/// Processor time and elapsed time of one variant.
#[derive(Default)]
struct Spent {
    writing: Duration,
    reading: Duration,
    writing_clock: Duration,
    reading_clock: Duration,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| -> Result<u64> {
        let given = arguments.next();
        given.map_or(Ok(default), |text| Ok(text.parse()?))
    };
    let (mebibytes, rounds) = (number(256)?, number(20)?);
    let place = match arguments.next() {
        Some(place) => tempfile::tempdir_in(place)?,
        None => tempfile::tempdir()?,
    };
    let open = |name: &str, checksums: bool| {
        let mut options = StoreOptions::new(place.path().join(name));
        options.checksums = checksums;
        Store::create(&options, &NewStore::default())
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let stores = [open("with", true)?, open("without", false)?];
    let mut spent = [Spent::default(), Spent::default()];
    for round in 0..=rounds {
        // The first store has colder caches, so each store is first every other time; the very first round does not
        // count.
        for turn in 0..2 {
            let which = ((round + turn) % 2) as usize;
            let one = runtime.block_on(one_file(&stores[which], mebibytes))?;
            if round > 0 {
                spent[which].writing += one.writing;
                spent[which].reading += one.reading;
                spent[which].writing_clock += one.writing_clock;
                spent[which].reading_clock += one.reading_clock;
            }
        }
    }
    let written = (mebibytes * rounds) as f64 / 1024.0;
    let read = written * f64::from(READS);
    for (name, spent) in ["with checksums", "without"].into_iter().zip(&spent) {
        let each = |time: Duration, gibibytes: f64| time.as_secs_f64() / gibibytes;
        println!(
            "{name:<15} writing {:.3} s of processor for each GiB, {:.3} s by the clock; reading {:.3} s, {:.3} s",
            each(spent.writing, written),
            each(spent.writing_clock, written),
            each(spent.reading, read),
            each(spent.reading_clock, read)
        );
    }
    let more = |with: Duration, without: Duration| {
        100.0 * (with.as_secs_f64() / without.as_secs_f64() - 1.0)
    };
    println!(
        "more processor time with checksums: writing {:.1} %, reading {:.1} %",
        more(spent[0].writing, spent[1].writing),
        more(spent[0].reading, spent[1].reading)
    );
    Ok(())
}

/// Processor time that this process has used.
fn processor() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks =
        |at: usize| -> Result<u64> { Ok(fields.split_whitespace().nth(at).unwrap_or("").parse()?) };
    // proc(5): the 14th and 15th fields; two fields come before these. A tick is a hundredth of a second on Linux.
    Ok(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}

/// Writes a file, makes it stable, closes its sums, reads it, removes it.
async fn one_file(store: &Store, mebibytes: u64) -> Result<Spent> {
    let (who, name) = (Credentials::root(), Name::new(&b"file"[..])?);
    let access = AccessCheck::Credentials(&who);
    let new = NewObject::File(Creation::Unchecked);
    let set = SetAttributes::default();
    let made = store.create(&who, ObjectId::ROOT, &name, new, &set).await?;
    let id = made.attributes.id;
    let data: Vec<u8> = (0..MEBIBYTE).map(|at| (at * 7 + at / 251) as u8).collect();
    let data = Bytes::from(data);
    let (clock, begun) = (Instant::now(), processor()?);
    for number in 0..mebibytes {
        let (at, data) = (number * MEBIBYTE, data.clone());
        store
            .write(access, id, at, data, Stability::Unstable)
            .await?;
    }
    store.sync().await?;
    let (writing_clock, writing) = (clock.elapsed(), processor()? - begun);
    let (clock, begun) = (Instant::now(), processor()?);
    for _ in 0..READS {
        for number in 0..mebibytes {
            let read = store
                .read(access, id, number * MEBIBYTE, MEBIBYTE as u32)
                .await?;
            assert_eq!(read.bytes.len() as u64, MEBIBYTE, "a short read");
        }
    }
    let (reading_clock, reading) = (clock.elapsed(), processor()? - begun);
    store.remove(&who, ObjectId::ROOT, &name).await?;
    store.sync().await?;
    Ok(Spent {
        writing,
        reading,
        writing_clock,
        reading_clock,
    })
}
