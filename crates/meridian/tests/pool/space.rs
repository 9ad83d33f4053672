//! How much space there is, and a data server that has none.

use std::collections::HashSet;

use nfs4::{Attr, Attributes4, Bitmap4, NfsStat4, StableHow4};

use super::*;
use crate::fixture::http_get;

const SPACE: Bitmap4 = Bitmap4::of(&[Attr::SpaceTotal, Attr::SpaceAvail]);

/// What `df` shows: all, and what can be written, in bytes.
pub(super) async fn space(server: &Running) -> (u64, u64) {
    let (client, root) = client_of(server).await;
    let told: Attributes4 = client.getattr(&root, SPACE).await.unwrap();
    client.leave().await.unwrap();
    (told.space_total.unwrap(), told.space_avail.unwrap())
}

/// What becomes of writing to each stripe of a file that is there.
async fn write_again(server: &Running, name: &str) -> HashSet<Option<NfsStat4>> {
    let (client, root) = client_of(server).await;
    let file = client.open(&root, name, &How::create(0o644)).await.unwrap();
    let mut became = HashSet::new();
    for stripe in 0..STRIPES {
        let (offset, bytes) = (u64::from(stripe) * UNIT as u64, vec![stripe; UNIT]);
        let written = client.write(&file, offset, bytes.into(), StableHow4::FileSync);
        became.insert(written.await.err().map(|error| error.status().unwrap()));
    }
    client.close(&file).await.unwrap();
    client.leave().await.unwrap();
    became
}

/// A data server that keeps back half as much again as its disk has: nothing can be written there, and what is there can be removed.
pub(super) fn fill(data_server: &Site, available_bytes: u64) {
    let path = data_server.place.configuration();
    let reserve = format!(
        "\n[store]\nreserve = \"{} KiB\"\n",
        (available_bytes / 2 * 3) >> 10
    );
    let all = fs::read_to_string(&path).unwrap() + &reserve;
    fs::write(path, all).unwrap();
}

fn alarm_of(site: &Site) -> Option<String> {
    let mut alarms = site.place.status().alarms.into_iter();
    let full = alarms.find(|alarm| alarm.name == "pool-server-full");
    full.map(|alarm| alarm.what)
}

#[test]
fn clients_see_the_space_of_the_data_servers_and_a_full_one_is_named() {
    let metadata = Site::new();
    let at = address(&metadata);
    succeed(&pool(
        &metadata,
        &["create", "--address", &at, "--stripe-unit", "64 KiB"],
    ));
    let names = metadata.place.start();
    let (one, other) = (joined(&metadata), joined(&metadata));
    let own_total = block_on(space(&names)).0;
    let (_one, spacious) = (start(&one), start(&other));
    for number in [2, 3] {
        until("new files lie there", || {
            data_server(&metadata, number).new_files
        });
    }
    // All of them lie on one disk here.
    assert_eq!(block_on(space(&names)).0, 2 * own_total);
    block_on(write(&names, "kept", &striped_bytes(1)));
    let before = fs::read(other.place.configuration()).unwrap();
    spacious.stop();
    fill(&other, status(&one).holding.unwrap().available_bytes);
    let full = start(&other);
    until("it is full", || {
        alarm_of(&metadata).is_some_and(|what| what.starts_with("data server 3 has 0 B of"))
    });
    assert!(
        alarm_of(&other)
            .unwrap()
            .starts_with("data server 3 has 0 B")
    );
    assert_eq!(alarm_of(&one), None);

    // What is striped over it cannot be written there, and is all there.
    until("it serves", || data_server(&metadata, 3).serves);
    let became = block_on(write_again(&names, "kept"));
    assert_eq!(became, HashSet::from([None, Some(NfsStat4::NoSpc)]));
    assert_eq!(block_on(read(&names, "kept")).len(), striped_bytes(1).len());

    // New files avoid it.
    until("new files avoid it", || {
        !data_server(&metadata, 3).new_files
    });
    let (total, available) = block_on(space(&names));
    assert!(total == own_total && available > 0, "{total} {available}");
    block_on(write(&names, "next", &striped_bytes(50)));
    assert_eq!(block_on(read(&names, "next")), striped_bytes(50));
    let members = succeed(&pool(&metadata, &["members"]));
    assert!(
        members.contains("serves, gets no new files; 1 file; 0 B of"),
        "{members}"
    );
    let members = succeed(&pool(&metadata, &["members", "--json"]));
    let members: serde_json::Value = serde_json::from_str(&members).unwrap();
    assert_eq!(members["members"][2]["holding"]["available_bytes"], 0);
    let page = http_get(metadata.place.status().page.unwrap(), "/");
    for part in [
        "Servers of the pool",
        "data server 3",
        "pool-server-full",
        "0 B of",
    ] {
        assert!(page.contains(part), "`{part}` is not in\n{page}");
    }

    // It still removes, and when there is space again, files lie there again.
    block_on(remove(&names, "kept"));
    until("nothing of it is left", || {
        status(&other).holding.unwrap().contents == 0
    });
    full.stop();
    fs::write(other.place.configuration(), before).unwrap();
    let _spacious = start(&other);
    until("new files lie there again", || {
        data_server(&metadata, 3).new_files
    });
    assert_eq!(alarm_of(&metadata), None);
}
