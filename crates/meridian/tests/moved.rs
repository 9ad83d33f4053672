//! A data directory that is moved, while its server is stopped and while it runs.

use std::fs;

use crate::fixture::site::block_on;
use crate::fixture::{Place, Running, complaint, run};
use nfs4::NfsFh4;
use nfs4_client::{How, StableHow4};

/// Makes a file with these contents, stable. Returns its handle.
async fn save(server: &Running, name: &str, contents: &str) -> Result<NfsFh4, nfs4_client::Error> {
    let client = server.client().await;
    let root = client.mount("/export").await?;
    let file = client.open(&root, name, &How::create(0o644)).await?;
    let bytes = contents.to_owned().into();
    client.write(&file, 0, bytes, StableHow4::FileSync).await?;
    client.close(&file).await?;
    client.leave().await?;
    Ok(file.handle)
}

/// The handle of a file, and what is in it.
async fn find(server: &Running, name: &str) -> (NfsFh4, String) {
    let client = server.client().await;
    let root = client.mount("/export").await.unwrap();
    let file = client.open(&root, name, &How::read()).await.unwrap();
    let bytes = client.read_to_end(&file).await.unwrap();
    client.close(&file).await.unwrap();
    client.leave().await.unwrap();
    (file.handle, String::from_utf8(bytes.to_vec()).unwrap())
}

#[test]
fn a_stopped_servers_data_is_served_from_where_it_was_moved_to() {
    let place = Place::new("");
    let server = place.start();
    let made = block_on(save(&server, "file", "before the move")).unwrap();
    server.stop();
    let moved = place.directory.path().join("elsewhere");
    fs::rename(place.data(), &moved).unwrap();
    let mut command = crate::fixture::meridian();
    command.arg("serve").arg("--data").arg(&moved);
    command.arg("--config").arg(place.configuration());
    let server = place.start_command(&mut command);
    let found = block_on(find(&server, "file"));
    assert_eq!(found, (made, "before the move".to_owned()));
    block_on(save(&server, "later", "behind the move")).unwrap();
    server.stop();
    assert!(!place.data().exists(), "nothing is made where it was");
    // And back.
    fs::rename(&moved, place.data()).unwrap();
    let server = place.start();
    let (_, later) = block_on(find(&server, "later"));
    assert_eq!(later, "behind the move");
    server.stop();
}

/// A tree that the disk had lost, or whose disk was not mounted, was replaced by an empty one.
#[test]
fn a_tree_that_is_gone_is_not_replaced_by_an_empty_one() {
    let place = Place::new("");
    let server = place.start();
    let made = block_on(save(&server, "file", "precious")).unwrap();
    server.stop();
    let (tree, kept) = (
        place.data().join("trees/default"),
        place.directory.path().join("kept"),
    );
    fs::rename(&tree, &kept).unwrap();
    let data = place.data();
    let check = |more: &[&str]| run(&[&["check", "--data", data.to_str().unwrap()], more].concat());
    for empties in [false, true] {
        if empties {
            // The mount point of a disk.
            fs::create_dir(&tree).unwrap();
        }
        let refused = place.serve().output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let told = complaint(&refused);
        assert!(
            told.contains("the tree \"default\" was made here"),
            "{told}"
        );
        assert!(told.contains("--accept-loss"), "{told}");
        for arguments in [&[][..], &["--repair"]] {
            let checked = check(arguments);
            assert_eq!(checked.status.code(), Some(3), "{checked:?}");
            let told = String::from_utf8_lossy(&checked.stdout);
            assert!(
                told.contains("`--repair --accept-loss` gives it up"),
                "{told}"
            );
            let asks_for_a_repair = told.contains("run `meridian check --repair`");
            assert_eq!(asks_for_a_repair, arguments.is_empty(), "{told}");
        }
    }
    fs::remove_dir(&tree).unwrap();
    fs::rename(&kept, &tree).unwrap();
    let server = place.start();
    assert_eq!(
        block_on(find(&server, "file")),
        (made, "precious".to_owned())
    );
    server.stop();
    fs::remove_dir_all(&tree).unwrap();
    let given_up = check(&["--repair", "--accept-loss"]);
    assert!(given_up.status.success(), "{given_up:?}");
    place.start().stop();
}

#[test]
fn a_server_whose_data_is_moved_away_ends_and_has_lost_nothing() {
    // The client that was at work does not come back, and nobody waits until it might have.
    let place = Place::new("[time]\ngrace_seconds = 0\n");
    let server = place.start();
    let mut answered = vec![("file".to_owned(), "before the move".to_owned())];
    block_on(save(&server, "file", "before the move")).unwrap();
    let moved = place.directory.path().join("elsewhere");
    block_on(async {
        let client = server.client().await;
        let root = client.mount("/export").await.unwrap();
        fs::rename(place.data(), &moved).unwrap();
        for number in 0.. {
            let name = format!("meanwhile {number}");
            let save = async {
                let file = client
                    .open(&root, name.as_str(), &How::create(0o644))
                    .await?;
                let bytes = name.clone().into();
                client.write(&file, 0, bytes, StableHow4::FileSync).await?;
                client.close(&file).await
            };
            if save.await.is_err() {
                break;
            }
            answered.push((name.clone(), name));
        }
    });
    assert_eq!(server.wait().code(), Some(1));
    let log = place.read_log();
    let words = "is not the directory any more that it was opened in";
    assert!(log.contains(words), "{log}");
    assert!(!place.data().exists(), "nothing is made where it was");
    fs::rename(&moved, place.data()).unwrap();
    let server = place.start();
    for (name, contents) in answered {
        let (_, found) = block_on(find(&server, &name));
        assert_eq!(found, contents);
    }
    server.stop();
}
