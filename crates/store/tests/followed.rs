//! Random work at one store, which another store follows through crashes: at the end both have the same rows and
//! the same bytes.

use std::collections::BTreeSet;

use crate::fixture::pair::Pair;
use crate::fixture::{root, with_mode, with_size};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use vfs::{
    AccessCheck, Creation, Extent, FileSystem, NewObject, ObjectId, SetAttributes, Stability,
    XattrMode, XattrName,
};

const ROOT: ObjectId = ObjectId::ROOT;

/// The leader's operations; small numbers choose among a few names, directories and places.
#[derive(Clone, Debug)]
enum Work {
    Create(u8, u8, u16),
    Directory(u8, u8),
    Write {
        name: (u8, u8),
        offset: u16,
        length: u16,
        stable: bool,
    },
    Resize((u8, u8), u16),
    Punch((u8, u8), u16, u16),
    Rename((u8, u8), (u8, u8)),
    Link((u8, u8), (u8, u8)),
    Remove(u8, u8),
    Mode((u8, u8), u8),
    SetXattr((u8, u8), u8),
    RemoveXattr((u8, u8), u8),
    Follow,
    FollowAtOnce,
    Ship,
    Crash,
}

fn place() -> impl Strategy<Value = (u8, u8)> {
    (0..3_u8, 0..4_u8)
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        3 => (place(), prop_oneof![Just(0), any::<u16>()]).prop_map(|((d, n), size)| Work::Create(d, n, size)),
        1 => place().prop_map(|(d, n)| Work::Directory(d, n)),
        6 => (place(), any::<u16>(), 1..20_000_u16, any::<bool>())
            .prop_map(|(name, offset, length, stable)| Work::Write { name, offset, length, stable }),
        3 => (place(), any::<u16>()).prop_map(|(name, size)| Work::Resize(name, size)),
        2 => (place(), any::<u16>(), any::<u16>()).prop_map(|(name, at, length)| Work::Punch(name, at, length)),
        3 => (place(), place()).prop_map(|(from, to)| Work::Rename(from, to)),
        2 => (place(), place()).prop_map(|(from, to)| Work::Link(from, to)),
        2 => place().prop_map(|(d, n)| Work::Remove(d, n)),
        1 => (place(), any::<u8>()).prop_map(|(name, mode)| Work::Mode(name, mode)),
        1 => (place(), 0..3_u8).prop_map(|(name, which)| Work::SetXattr(name, which)),
        1 => (place(), 0..3_u8).prop_map(|(name, which)| Work::RemoveXattr(name, which)),
        2 => Just(Work::Follow),
        3 => Just(Work::FollowAtOnce),
        3 => Just(Work::Ship),
        1 => Just(Work::Crash),
    ]
}

/// The leader's directories, and the files whose bytes the follower may lack.
struct Run {
    pair: Pair,
    folders: Vec<ObjectId>,
    unshipped: BTreeSet<ObjectId>,
    stamp: u8,
}

impl Run {
    async fn new() -> Run {
        let pair = Pair::new().await;
        let mut folders = vec![ROOT];
        for name in ["x", "y"] {
            folders.push(pair.leader.directory(ROOT, name).await);
        }
        Run {
            pair,
            folders,
            unshipped: BTreeSet::new(),
            stamp: 0,
        }
    }

    fn folder(&self, number: u8) -> ObjectId {
        self.folders[usize::from(number)]
    }

    /// A regular file, if the name leads to one.
    async fn file(&self, (folder, name): (u8, u8)) -> Option<ObjectId> {
        let id = self
            .pair
            .leader
            .find(self.folder(folder), &format!("n{name}"))
            .await
            .ok()?;
        let attributes = self.pair.leader.attributes(id).await;
        (attributes.kind == vfs::ObjectKind::File).then_some(id)
    }

    /// Carries out an operation. A refused operation leaves both stores unchanged.
    async fn carry_out(&mut self, work: Work) {
        self.stamp = self.stamp.wrapping_add(1);
        let leader = &self.pair.leader;
        let text = |name: u8| format!("n{name}");
        match work {
            Work::Create(folder, name, size) => {
                let set = SetAttributes {
                    size: Some(size.into()),
                    ..SetAttributes::default()
                };
                let new = NewObject::File(Creation::Guarded);
                let (who, folder, name) = (root(), self.folder(folder), text(name));
                let made = leader.make_as(&who, folder, &name, new, &set).await;
                if let Ok(made) = made {
                    self.unshipped.insert(made.attributes.id);
                }
            }
            Work::Directory(folder, name) => {
                let new = NewObject::Plain(vfs::ObjectKind::Directory);
                let _made = leader.make(self.folder(folder), &text(name), new).await;
            }
            Work::Write {
                name,
                offset,
                length,
                stable,
            } => self.write(name, (offset, length), stable).await,
            Work::Resize(name, size) => {
                let Some(id) = self.file(name).await else {
                    return;
                };
                // Rows alone bring the new end and the hole before it.
                leader.set(id, &with_size(size.into())).await.unwrap();
            }
            Work::Punch(name, offset, length) => self.punch(name, (offset, length)).await,
            Work::Rename(from, to) => {
                let (source, target) = (self.folder(from.0), self.folder(to.0));
                let (from, to) = (text(from.1), text(to.1));
                let _renamed = leader.rename((source, &from), (target, &to)).await;
            }
            Work::Link(from, to) => {
                let Some(id) = self.file(from).await else {
                    return;
                };
                let _linked = leader.link(id, self.folder(to.0), &text(to.1)).await;
            }
            Work::Remove(folder, name) => {
                let _removed = leader.remove(self.folder(folder), &text(name)).await;
            }
            Work::Mode(name, mode) => {
                let Some(id) = self.file(name).await else {
                    return;
                };
                leader.set(id, &with_mode(mode.into())).await.unwrap();
            }
            Work::SetXattr(name, which) => {
                let Some(id) = self.file(name).await else {
                    return;
                };
                let (who, name) = (root(), XattrName::new(vec![which + 1]).unwrap());
                let value = Bytes::from(vec![self.stamp; 500]);
                let set = leader.store();
                let set = set.set_xattr(&who, id, &name, value, XattrMode::Any);
                set.await.unwrap();
            }
            Work::RemoveXattr(name, which) => {
                let Some(id) = self.file(name).await else {
                    return;
                };
                let (who, name) = (root(), XattrName::new(vec![which + 1]).unwrap());
                let _removed = leader.store().remove_xattr(&who, id, &name).await;
            }
            Work::Follow => drop(self.pair.follow().await),
            Work::FollowAtOnce => _ = self.pair.follow_at_once().await,
            Work::Ship => self.ship().await,
            Work::Crash => self.pair.follower.crash(),
        }
    }

    async fn write(&mut self, name: (u8, u8), (offset, length): (u16, u16), stable: bool) {
        let Some(id) = self.file(name).await else {
            return;
        };
        let stability = match stable {
            true => Stability::File,
            false => Stability::Unstable,
        };
        let data = vec![self.stamp; usize::from(length)];
        let leader = &self.pair.leader;
        leader
            .write_as(&root(), id, offset.into(), &data, stability)
            .await
            .unwrap();
        self.unshipped.insert(id);
    }

    async fn punch(&mut self, name: (u8, u8), (offset, length): (u16, u16)) {
        let Some(id) = self.file(name).await else {
            return;
        };
        let extent = Extent {
            offset: offset.into(),
            length: u64::from(length) + 1,
        };
        let (who, store) = (root(), self.pair.leader.store());
        let punched = store.deallocate(AccessCheck::Credentials(&who), id, extent);
        punched.await.unwrap();
        self.unshipped.insert(id);
    }

    /// Sends what the follower lacks; the follower has to know the sizes first.
    async fn ship(&mut self) {
        let _records = self.pair.follow_at_once().await;
        for id in std::mem::take(&mut self.unshipped) {
            if self.pair.leader.store().attributes(id).await.is_ok() {
                self.pair.ship(id).await;
            }
        }
    }

    async fn compare(&mut self) {
        self.ship().await;
        self.pair.same_rows().await;
        let (leader, follower) = (&self.pair.leader, &self.pair.follower);
        // After a crash, removed files may still have been open.
        follower.store().end_reclaim().await.unwrap();
        for (id, _) in leader.store().files(None, usize::MAX).unwrap() {
            assert_eq!(leader.content(id).await, follower.content(id).await, "{id}");
        }
        assert_eq!(
            leader.store().statistics().objects,
            follower.store().statistics().objects
        );
        let directory = follower.options.directory.clone();
        follower.store().sync().await.unwrap();
        self.pair.follower.close();
        let report = store::Store::check(&directory, false).unwrap();
        assert!(report.sound, "{report}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_follows_has_the_same_tree(work in vec(work(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let mut run = Run::new().await;
            for step in work {
                run.carry_out(step).await;
            }
            run.compare().await;
        });
    }
}
