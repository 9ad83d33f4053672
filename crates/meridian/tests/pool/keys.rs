//! Keys of handles change while clients work.

use super::*;

/// What handles say of their key, in their bytes 1 to 4.
fn key_of(layout: &FileLayout4) -> u32 {
    let handle = &layout.fh_list[0].0;
    u32::from_be_bytes(handle[1..5].try_into().unwrap())
}

async fn remove(server: &Running, name: &str) {
    let (client, root) = client_of(server).await;
    client.remove(&root, name).await.unwrap();
    client.leave().await.unwrap();
}

/// A new layout of a file, and its key. The holder asks as long as the one before is being recalled.
async fn renewed(holder: Holder) -> (Holder, u32) {
    let mode = LayoutIomode4::ReadWrite;
    let (stateid, layout) = layout_of(&holder.client, &holder.file, mode).await;
    let key = key_of(&layout);
    let holder = Holder {
        stateid,
        layout,
        ..holder
    };
    (holder, key)
}

#[test]
fn clients_work_on_while_keys_change_and_what_was_sealed_with_an_old_one_stays_worthless() {
    let scene = Scene::configured(&format!("{LEASE}[pool]\nkey_life = \"10 s\"\n"));
    let runtime = runtime();
    let keeps = Arc::new(Keeps::default());
    // Sooner than a client's lease ends.
    let lives = |server: &Running| Options {
        renewal: Some(Duration::from_secs(1)),
        ..Options::at(server.address)
    };
    let options = Options {
        callbacks: keeps.clone(),
        ..lives(&scene.shown)
    };
    let (mut removed, mut at_work, first) = runtime.block_on(async {
        let removed = Holder::with(lives(&scene.names), "removed").await;
        removed.write_all().await;
        removed.client.close(&removed.file).await.unwrap();
        remove(&scene.shown, "removed").await;
        let kept = Holder::with(options, "kept").await;
        kept.write_all().await;
        // It is not given back, and ends before the key does.
        let begun = Instant::now();
        while keeps.0.load(Ordering::SeqCst) == 0 || !kept.is_fenced().await {
            assert!(begun.elapsed() < PATIENCE, "it is good for ever");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let first = key_of(&kept.layout);
        let (again, key) = renewed(kept).await;
        assert!(key > first, "{key} is no later one");
        again.write_all().await;
        (removed, again, first)
    });
    let Scene {
        sites,
        names,
        shown: _shown,
        _data: [third, _fourth],
    } = scene;
    third.kill();
    let _third = start(&sites[2]);
    until("it serves again", || data_server(&sites[0], 3).serves);
    // Until no key counts any more that there was when the file was removed, nor the one behind it.
    runtime.block_on(async {
        for holder in [&mut removed, &mut at_work] {
            holder.servers = servers_of(&holder.client, &holder.layout).await;
        }
        let begun = Instant::now();
        loop {
            assert!(removed.is_fenced().await, "contents come back");
            let (renewed, key) = renewed(at_work).await;
            at_work = renewed;
            if key > first + 3 {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "key {key} is used for ever");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!(removed.is_fenced().await, "contents come back");
        at_work.write_all().await;
        let returned = at_work
            .client
            .return_layout(&at_work.file.handle, at_work.stateid);
        returned.await.unwrap();
        let expected: Vec<u8> = (0..UNITS)
            .flat_map(|stripe| at_work.stripe(stripe).to_vec())
            .collect();
        assert!(
            read(&names, "kept").await == expected,
            "the bytes are others"
        );
    });
    for site in &sites[2..] {
        until("only what a name leads to is kept", || {
            status(site)
                .holding
                .is_some_and(|holding| holding.contents == 1)
        });
    }
}
