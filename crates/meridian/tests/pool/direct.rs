//! A metadata server that has joined reads and writes large files at the data servers for its clients, and shows whatever was answered anywhere.

use tokio::task::JoinSet;

use super::*;

/// Of this size, which is larger than a file that is read through the first metadata server.
const SIZE: usize = 6 << 20;

fn bytes(seed: u8) -> Vec<u8> {
    (0..SIZE).map(|at| (at / 4096) as u8 ^ seed).collect()
}

/// How many questions the second metadata server has asked.
fn questions(scene: &Scene) -> u64 {
    status(&scene.sites[1]).copies.unwrap().questions
}

async fn opened(server: &Running, name: &str) -> (Client, OpenFile) {
    let (client, root) = client_of(server).await;
    let file = client.open(&root, name, &How::read()).await.unwrap();
    (client, file)
}

#[test]
fn a_joined_server_reads_large_files_at_the_data_servers() {
    let scene = Scene::new();
    runtime().block_on(async {
        write(&scene.names, "file", &bytes(1)).await;
        let (client, file) = opened(&scene.shown, "file").await;
        assert!(client.read_to_end(&file).await.unwrap() == bytes(1));
        let before = questions(&scene);
        assert!(client.read_to_end(&file).await.unwrap() == bytes(1));
        let asked = questions(&scene) - before;
        assert!(asked < 6, "{asked} questions for one reading");

        // What is changed at the first one is seen by the next open, also where the file was cut and is as long again.
        for seed in 2..5 {
            cut(&scene.names, "file").await;
            write(&scene.names, "file", &bytes(seed)).await;
            let (other, again) = opened(&scene.shown, "file").await;
            assert!(other.read_to_end(&again).await.unwrap() == bytes(seed));
            assert!(client.read_to_end(&file).await.unwrap() == bytes(seed));
            other.close(&again).await.unwrap();
            other.leave().await.unwrap();
        }

        // A hole is read as zeros, also behind what any data server has.
        let (writer, root) = client_of(&scene.names).await;
        let how = How::create(0o644);
        let sparse = writer.open(&root, "sparse", &how).await.unwrap();
        let size = Attributes4 {
            size: Some(SIZE as u64),
            ..Attributes4::default()
        };
        writer
            .setattr(&sparse.handle, sparse.stateid, &size)
            .await
            .unwrap();
        writer.close(&sparse).await.unwrap();
        writer.leave().await.unwrap();
        let (other, sparse) = opened(&scene.shown, "sparse").await;
        let read = other.read_to_end(&sparse).await.unwrap();
        assert!(read.len() == SIZE && read.iter().all(|byte| *byte == 0));
        other.close(&sparse).await.unwrap();
        other.leave().await.unwrap();

        // A client writes at the data servers, while the server has a layout.
        let holder = Holder::at(&scene.names, "file").await;
        holder.write_all().await;
        let said = holder
            .client
            .commit_layout(&holder.file.handle, holder.stateid, 0);
        said.await.unwrap();
        let stripes = (UNITS * holder.unit()) as usize;
        let seen = client.read_to_end(&file).await.unwrap();
        for stripe in 0..UNITS {
            let at = (stripe * holder.unit()) as usize;
            assert!(seen[at..at + holder.unit() as usize] == holder.stripe(stripe));
        }
        assert!(seen[stripes..] == bytes(4)[stripes..]);
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();
    });
}

async fn open_to_write(server: &Running, name: &str) -> (Client, OpenFile) {
    let (client, root) = client_of(server).await;
    let how = How::create(0o644);
    let file = client.open(&root, name, &how).await.unwrap();
    (client, file)
}

/// Writes all of these bytes in requests of 256 KiB, with so many under way at a time.
async fn write_large(client: &Client, file: &OpenFile, bytes: &[u8], at_once: usize) {
    let mut under_way = JoinSet::new();
    for (at, piece) in bytes.chunks(1 << 18).enumerate() {
        if under_way.len() >= at_once {
            under_way.join_next().await.unwrap().unwrap();
        }
        let (client, file) = (client.clone(), file.clone());
        let piece = Bytes::copy_from_slice(piece);
        under_way.spawn(async move {
            let written = client.write_all(&file, (at << 18) as u64, &piece).await;
            written.unwrap();
        });
    }
    under_way.join_all().await;
}

#[test]
fn a_joined_server_writes_large_files_at_the_data_servers() {
    let scene = Scene::new();
    runtime().block_on(async {
        let (client, file) = open_to_write(&scene.shown, "file").await;
        for seed in 1..4 {
            let before = questions(&scene);
            write_large(&client, &file, &bytes(seed), 1 << seed).await;
            let asked = questions(&scene) - before;
            // Each of the 24 writes is committed at the first server, which was asked for the bytes as well only in the beginning.
            assert!(asked < 36, "{asked} questions");
            // Small writes and reads come between.
            let piece = Bytes::from_static(b"between");
            client.write_all(&file, 5 << 20, &piece).await.unwrap();
            let mut expected = bytes(seed);
            expected[5 << 20..][..piece.len()].copy_from_slice(&piece);
            assert!(client.read_to_end(&file).await.unwrap() == expected);
            // Whoever looks sees the size, before the file is closed.
            let (other, root) = client_of(&scene.names).await;
            let found = other.lookup(&root, "file").await.unwrap();
            let size = other.stat(&found).await.unwrap().size;
            assert_eq!(size, Some(SIZE as u64));
            other.leave().await.unwrap();
            assert!(read(&scene.names, "file").await == expected);
        }
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();

        // Another server writes to the same file, and cuts it, while it is written.
        let (client, file) = open_to_write(&scene.shown, "file").await;
        let (other, same) = open_to_write(&scene.names, "file").await;
        for seed in 4..8 {
            write_large(&client, &file, &bytes(seed), 4).await;
            let mut expected = bytes(seed);
            for at in [1 << 20, 3 << 20] {
                let piece = Bytes::from(vec![seed; 1000]);
                other.write_all(&same, at as u64, &piece).await.unwrap();
                expected[at..][..1000].copy_from_slice(&piece);
            }
            assert!(client.read_to_end(&file).await.unwrap() == expected);
            cut(&scene.names, "file").await;
            let (begun, rest) = expected.split_at_mut(1);
            assert!(client.read_to_end(&file).await.unwrap() == *begun);
            rest.fill(0);
            let last = Bytes::from_static(b"x");
            client
                .write_all(&file, SIZE as u64 - 1, &last)
                .await
                .unwrap();
            expected[SIZE - 1] = b'x';
            assert!(client.read_to_end(&file).await.unwrap() == expected);
        }
        client.close(&file).await.unwrap();
        other.close(&same).await.unwrap();
        client.leave().await.unwrap();
        other.leave().await.unwrap();
    });
}
