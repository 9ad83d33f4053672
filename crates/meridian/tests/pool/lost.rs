//! A data server that is lost for ever, with all that lay there.

use nfs4::NfsStat4;

use super::*;

/// What becomes of reading each stripe of a file.
async fn read_stripes(server: &Running, name: &str) -> Vec<Result<u8, NfsStat4>> {
    let (client, root) = client_of(server).await;
    let file = client.open(&root, name, &How::read()).await.unwrap();
    let mut became = Vec::new();
    for stripe in 0..STRIPES {
        let read = client.read(&file, u64::from(stripe) * UNIT as u64, UNIT as u32);
        became.push(match read.await {
            Ok(read) => Ok(read.data[0]),
            Err(error) => Err(error.status().unwrap()),
        });
    }
    client.close(&file).await.unwrap();
    client.leave().await.unwrap();
    became
}

#[test]
fn what_lay_on_a_lost_data_server_is_named_and_gives_an_error_and_all_else_goes_on() {
    let (metadata, names, machines, mut servers) = striping_over([2, 3, 4]);
    block_on(write(&names, "one", &striped_bytes(1)));
    block_on(write(&names, "other", &striped_bytes(100)));
    let forget = |more: &[&str]| pool(&metadata, &[&["forget", "4"], more].concat());
    refuse(&forget(&["--yes"]), &["serves, and is not given up"]);
    refuse(&pool(&metadata, &["forget", "1"]), &["is not removed"]);

    let lost = stripes_in(&shelf(&machines[2]));
    servers.remove(2).kill();
    // Removal does not wait for it, and is owed.
    block_on(remove(&names, "other"));
    until("its lease has run out", || {
        complaint(&forget(&[])).contains("nobody is there to be asked")
    });
    refuse(
        &forget(&[]),
        &["lay there: 1", "/one", "nobody is there to be asked"],
    );
    let told = succeed(&forget(&["--yes"]));
    assert!(told.contains("lay there: 1\n  /one\n"), "{told}");

    let check = |names: &Running| {
        let became = block_on(read_stripes(names, "one"));
        for (stripe, became) in (1..).zip(became) {
            let wanted = match lost.contains(&stripe) {
                true => Err(NfsStat4::Io),
                false => Ok(stripe),
            };
            assert_eq!(became, wanted, "stripe {stripe}");
        }
        assert_eq!(status_of_members(&metadata), ["1", "2", "3", "4 removed"]);
        let told = succeed(&forget(&[]));
        assert!(
            told.contains("is given up") && told.contains("/one"),
            "{told}"
        );
        let told = succeed(&forget(&["--json"]));
        let told: server::ForgetAnswer = serde_json::from_str(&told).unwrap();
        assert_eq!(
            (told.done, &told.paths[..]),
            (true, &["/one".to_owned()][..])
        );
        let alarms = metadata.place.status().alarms;
        assert!(alarms.iter().all(|alarm| alarm.name != "pool-server-away"));
    };
    check(&names);
    names.kill();
    let names = metadata.place.start();
    for number in [2, 3] {
        until("it serves", || data_server(&metadata, number).serves);
    }
    check(&names);

    // It never comes back, and the file goes without it.
    let _returned = start(&machines[2]);
    until("it is told", || {
        let names = &status(&machines[2]).servers[0];
        names
            .trouble
            .as_deref()
            .unwrap_or("")
            .contains("was removed")
    });
    block_on(write(&names, "next", &striped_bytes(50)));
    assert_eq!(block_on(read(&names, "next")), striped_bytes(50));
    block_on(remove(&names, "one"));
    for machine in &machines[..2] {
        until("nothing of it is left", || {
            status(machine).holding.unwrap().contents == 1
        });
    }
    assert!(succeed(&forget(&[])).contains("lay there: 0"));
}
