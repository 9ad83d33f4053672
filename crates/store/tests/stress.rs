//! Many concurrent clients on several threads: whatever they do to each other, the store is consistent
//! afterwards, and the bytes of a file are those that one of them wrote.

use std::sync::Arc;

use crate::fixture::{Approver, READ, directory, file, name, open_owner, root, with_size};
use bytes::Bytes;
use store::{CommitMode, NewStore, Reserve, Store, StoreOptions};
use vfs::{
    AccessCheck, Cookie, Creation, Error, Extent, FileSystem, Name, NewObject, ObjectId,
    SetAttributes, Stability, XattrMode, XattrName,
};

const CLIENTS: u64 = 8;
const OPERATIONS: u64 = 300;
const BLOCK_BYTES: u64 = 4096;

/// Numbers that look random and are the same each time (a linear congruential generator).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn name(&mut self) -> Name {
        name(&format!("n{}", self.below(6)))
    }
}

/// The results that clients can expect when they disturb each other; any other error is a fault of the store.
fn expected<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(
            Error::NotFound
            | Error::Stale
            | Error::Exists
            | Error::NotDirectory
            | Error::IsDirectory
            | Error::NotEmpty
            | Error::Invalid(_)
            | Error::NoXattr,
        ) => None,
        Err(other) => panic!("{other}"),
    }
}

fn tolerate<T>(result: Result<T, Error>) {
    expected(result);
}

async fn client(store: Arc<Store>, number: u64) {
    let who = root();
    let mut dice = Dice(number + 1);
    let mut homes = vec![ObjectId::ROOT];
    let mut files = Vec::new();
    let set = SetAttributes::default();
    for _ in 0..OPERATIONS {
        let home = homes[dice.below(homes.len() as u64) as usize];
        let id = files.get(dice.below(8) as usize).copied().unwrap_or(home);
        let (old, new) = (dice.name(), dice.name());
        match dice.below(13) {
            0 | 1 => {
                let new_file = NewObject::File(Creation::Unchecked);
                let made = store.create(&who, home, &new, new_file, &set).await;
                files.extend(expected(made).map(|made| made.attributes.id));
            }
            2 => {
                let made = store.create(&who, home, &new, directory(), &set).await;
                homes.extend(expected(made).map(|made| made.attributes.id));
            }
            3 => tolerate(store.remove(&who, home, &old).await),
            4 | 5 => {
                let target = homes[dice.below(homes.len() as u64) as usize];
                tolerate(store.rename(&who, (home, &old), (target, &new)).await);
            }
            6 => tolerate(store.link(&who, id, home, &new).await),
            7 | 8 => write_block(&store, &mut dice, id).await,
            9 => {
                let size = with_size(dice.below(20) * BLOCK_BYTES);
                tolerate(
                    store
                        .set_attributes(AccessCheck::Open(&who), id, &size)
                        .await,
                );
            }
            10 => {
                let extent = Extent {
                    offset: dice.below(9) * BLOCK_BYTES,
                    length: BLOCK_BYTES,
                };
                tolerate(store.deallocate(AccessCheck::Open(&who), id, extent).await);
            }
            11 => open_and_read(&store, number, id).await,
            _ => {
                let xattr = XattrName::new(&b"x"[..]).unwrap();
                let value = Bytes::from(vec![1; dice.below(2000) as usize]);
                let set = store
                    .set_xattr(&who, id, &xattr, value, XattrMode::Any)
                    .await;
                tolerate(set);
                tolerate(store.read_directory(&who, home, Cookie::START, 3).await);
            }
        }
    }
}

/// Writes one block with the same byte, not zero, everywhere.
async fn write_block(store: &Store, dice: &mut Dice, id: ObjectId) {
    let byte = u8::try_from(dice.below(255) + 1).unwrap();
    let data = Bytes::from(vec![byte; BLOCK_BYTES as usize]);
    let offset = dice.below(20) * BLOCK_BYTES;
    let stability = match dice.below(4) {
        0 => Stability::File,
        _ => Stability::Unstable,
    };
    let who = root();
    expected(
        store
            .write(AccessCheck::Open(&who), id, offset, data, stability)
            .await,
    );
    if dice.below(3) == 0 {
        expected(store.commit(id, 0, 0).await);
    }
}

/// An open file can be read, removed or not; each block is as one client wrote it.
async fn open_and_read(store: &Store, number: u64, id: ObjectId) {
    let who = root();
    let owner = open_owner(&format!("client{number}"));
    if expected(
        store
            .open(AccessCheck::Credentials(&who), id, &owner, READ)
            .await,
    )
    .is_none()
    {
        return;
    }
    let read = store
        .read(AccessCheck::Open(&who), id, 0, 1 << 20)
        .await
        .unwrap();
    for block in read.bytes.chunks(BLOCK_BYTES as usize) {
        assert!(
            block.iter().all(|byte| *byte == block[0]),
            "two writers mixed in one block"
        );
    }
    store.close(id, &owner).await.unwrap();
}

#[test]
fn clients_side_by_side_leave_a_store_that_agrees_with_itself() {
    for mode in [CommitMode::Sync, CommitMode::Async] {
        let place = tempfile::tempdir().unwrap();
        let mut options = StoreOptions::new(place.path().join("store"));
        options.commit = mode;
        options.open_files = 16;
        options.reserve = Reserve::Bytes(0);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .build()
            .unwrap();
        let store = Store::create(&options, &NewStore::default()).unwrap();
        let store = Arc::new(Approver::of(store).0);
        runtime.block_on(async {
            store.end_reclaim().await.unwrap();
            store
                .create(
                    &root(),
                    ObjectId::ROOT,
                    &name("n0"),
                    file(),
                    &SetAttributes::default(),
                )
                .await
                .unwrap();
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| tokio::spawn(client(Arc::clone(&store), number)))
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            assert_eq!(store.statistics().orphans, 0);
            store.sync().await.unwrap();
        });
        let statistics = store.statistics();
        assert!(
            !statistics.failed && statistics.dirty_files == 0,
            "{statistics:?}"
        );
        drop(store);
        let report = Store::check(&options.directory, false).unwrap();
        assert!(
            report.sound && report.objects == statistics.objects,
            "{report}"
        );
    }
}
