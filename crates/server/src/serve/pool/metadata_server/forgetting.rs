//! Servers of the pool that are lost for good. The book notes that a server is given up before any consequence is carried out. The
//! consequences are then completed, for one server after the other, even after the administrator's command has ended, and by the next run
//! if necessary.
//!
//! What must never enter: what becomes of names.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pool::DataServerNumber;
use throttle::Throttle;
use tokio::sync::watch;
use tokio::time::timeout;
use vfs::ReplicaSlot;

use super::super::connection::Survey;
use super::super::placed::{self, Listed, Walk};
use super::leaving::unsearched;
use super::{LOOK, MetadataServer};
use crate::status::{ForgetAnswer, ForgetQuestion, GivingUpStatus};

/// A command waits this long for the search of the tree, and again for the consequences: together less than the time limit of a question.
const PATIENCE: Duration = Duration::from_secs(20);

/// Log entries about failing work, the first one and then sums.
static FAILING: Throttle = Throttle::new();

/// The consequences of giving up servers.
pub(super) struct Forgetting {
    /// Changes when there is work, and when some is done.
    changed: watch::Sender<()>,
    /// Why the work for a server does not continue.
    troubles: Mutex<BTreeMap<ReplicaSlot, String>>,
}

impl Forgetting {
    pub(super) fn new() -> Forgetting {
        Forgetting {
            changed: watch::Sender::new(()),
            troubles: Mutex::default(),
        }
    }

    pub(super) fn is_due(&self) {
        self.changed.send_replace(());
    }

    fn troubles(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, String>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetadataServer {
    /// Gives up a lost server. Reports which files had parts on a data server, or which names led to a metadata server. Without `meant`, it
    /// only reports. For a server that is already given up, it only reports what is left.
    ///
    /// # Errors
    /// Why it is not given up, and what to do next.
    pub(in crate::serve) async fn forget(
        self: &Arc<Self>,
        ForgetQuestion { number, meant }: ForgetQuestion,
    ) -> Result<ForgetAnswer, String> {
        let slot = ReplicaSlot(number);
        if self.known.is_metadata_server(slot) {
            return self.forget_metadata_server(slot, meant).await;
        }
        let server = DataServerNumber(number);
        let revoked = self.data_server(number)?.revoked;
        let is_forgotten = self.keeping().book.forgotten.contains(&server);
        if revoked && !is_forgotten {
            return Err(format!(
                "data server {number} was removed when nothing lay there"
            ));
        }
        if !is_forgotten {
            self.expect_lost(number)?;
        }
        let homes = self.survey(Survey::Server(number)).await?;
        if !is_forgotten && homes.values().any(|home| home.may_serve) {
            return Err(format!(
                "data server {number} may still answer clients for a few seconds; try again"
            ));
        }
        let at_homes: u64 = homes.values().map(|home| home.had_part).sum();
        let groups = self.keeping().book.groups.clone();
        let (lost, is_whole) =
            searched(|lost| placed::walk_lost(&self.store, &groups, server, lost)).await;
        let lost = lost.map_err(unsearched)?;
        if meant || is_forgotten {
            let this = self.clone();
            // It runs to its end even if the caller stops waiting.
            let given_up = tokio::spawn(async move { this.give_up(server).await });
            given_up.await.map_err(|error| error.to_string())??;
        }
        Ok(ForgetAnswer {
            number,
            done: meant || is_forgotten,
            metadata_server: false,
            files: lost.files + at_homes,
            paths: lost.paths,
            partial: !is_whole,
            goes_on: !self.have_followed(slot).await,
        })
    }

    /// Waits for a while until all consequences of giving up a server are done. Returns whether they are.
    pub(super) async fn have_followed(&self, slot: ReplicaSlot) -> bool {
        let followed = async {
            let mut changed = self.forgetting.changed.subscribe();
            while self.is_forgetting(slot) {
                // The sender lives as long as `self`.
                let _ = changed.changed().await;
            }
        };
        timeout(PATIENCE, followed).await.is_ok()
    }

    /// Whether some consequences of giving up a server are not done yet.
    pub(super) fn is_forgetting(&self, slot: ReplicaSlot) -> bool {
        self.keeping().book.forgetting.contains(&slot)
    }

    /// The progress for servers that are being given up.
    pub(super) fn giving_up(&self) -> Vec<GivingUpStatus> {
        let slots = self.keeping().book.forgetting.clone();
        let troubles = self.forgetting.troubles();
        let slots = slots.into_iter().map(|slot| GivingUpStatus {
            number: slot.0,
            trouble: troubles.get(&slot).cloned(),
        });
        slots.collect()
    }

    /// Notes it in the book first. Also repeats consequences that an earlier run did not finish for a data server.
    async fn give_up(&self, server: DataServerNumber) -> Result<(), String> {
        {
            let _alone = self.changes.lock().await;
            let mut book = self.keeping().book.clone();
            if book.forgotten.insert(server) {
                // It may have come back during the search.
                self.expect_lost(server.0)?;
            }
            if book.new_files.is_some() && book.in_use().contains(&server) {
                let others = &book.in_use() - &BTreeSet::from([server]);
                let without = book.with_new_files_over(&others);
                book = without.ok_or("there have been too many groups of data servers")?;
            }
            book.forgetting.insert(ReplicaSlot(server.0));
            self.keep_changed(book).await?;
        }
        // If this fails, it is tried again.
        let _ = self.refuse_lost(server);
        self.forgetting.is_due();
        Ok(())
    }

    fn refuse_lost(&self, server: DataServerNumber) -> Result<(), String> {
        self.striped.dismiss(server);
        self.endpoint.revoke(ReplicaSlot(server.0));
        self.revoke(server)
    }

    /// Carries out the consequences of giving up a server.
    async fn follow(&self, slot: ReplicaSlot) -> Result<(), String> {
        let server = DataServerNumber(slot.0);
        let is_data_server = self.keeping().book.forgotten.contains(&server);
        let lost = match is_data_server {
            true => self.follow_lost_data_server(server).await?,
            false => self.follow_lost_home(slot).await?,
        };
        let _alone = self.changes.lock().await;
        let mut book = self.keeping().book.clone();
        book.forgetting.remove(&slot);
        self.keep_changed(book).await?;
        match is_data_server {
            true => tracing::warn!(
                number = slot.0,
                files_to_mend = lost,
                "a data server was given up, with all that lay there"
            ),
            false => tracing::warn!(
                number = slot.0,
                names = lost,
                "a metadata server was given up, with all that lived there"
            ),
        }
        Ok(())
    }

    /// In a set, notes files that had a part on a lost data server as damaged, so that the replica repairs them from another member. A file
    /// that is being written meanwhile is found when it is read, or is written completely from that member. Returns the number of files.
    async fn follow_lost_data_server(&self, server: DataServerNumber) -> Result<u64, String> {
        self.refuse_lost(server)?;
        if !self.in_set {
            return Ok(0);
        }
        let (groups, mut noted) = (self.keeping().book.groups.clone(), 0);
        let mut walk = Walk::new();
        while let Some(found) = walk.next(&self.store).await.map_err(unsearched)? {
            if !found.had_part_at(server, &groups) {
                continue;
            }
            let (file, version) = (found.attributes.id, found.attributes.change);
            match self.store.note_damaged(file, version, true).await {
                Ok(_) | Err(vfs::Error::Stale) => noted += 1,
                Err(error) => return Err(unsearched(error)),
            }
        }
        Ok(noted)
    }
}

/// The paths that a search of the tree finds within a time limit, and whether they are complete.
pub(super) async fn searched<S>(
    search: impl FnOnce(Box<dyn FnMut(String) + Send>) -> S,
) -> (vfs::Result<Listed>, bool)
where
    S: Future<Output = vfs::Result<()>>,
{
    let listed = Arc::new(Mutex::new(Listed::default()));
    let into = listed.clone();
    let add = move |path| {
        let mut listed = into.lock().unwrap_or_else(PoisonError::into_inner);
        listed.add(path);
    };
    let found = timeout(PATIENCE, search(Box::new(add))).await;
    let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
    let listed = std::mem::take(&mut *listed);
    match found {
        Ok(Ok(())) => (Ok(listed), true),
        Ok(Err(error)) => (Err(error), true),
        Err(_) => (Ok(listed), false),
    }
}

/// Carries out the consequences of giving up servers, one after the other, while the server runs.
pub(super) async fn run(server: Weak<MetadataServer>) {
    let Some(mut changed) = server.upgrade().map(|of| of.forgetting.changed.subscribe()) else {
        return;
    };
    loop {
        let Some(of) = server.upgrade() else { return };
        changed.mark_unchanged();
        let (slots, mut fails) = (of.keeping().book.forgetting.clone(), false);
        for slot in slots {
            let followed = of.follow(slot).await;
            match &followed {
                Ok(()) => drop(of.forgetting.troubles().remove(&slot)),
                Err(error) => {
                    let subject = ("a server is being given up", u64::from(slot.0));
                    if let Some(sum) = FAILING.failed(subject, Instant::now()) {
                        tracing::warn!(number = slot.0, error, %sum, "what follows from giving up a server is tried again");
                    }
                    of.forgetting.troubles().insert(slot, error.clone());
                }
            }
            fails |= followed.is_err();
            // Waiting commands check again.
            of.forgetting.is_due();
        }
        drop(of);
        match fails {
            true => tokio::time::sleep(LOOK).await,
            // The server is gone.
            false if changed.changed().await.is_err() => return,
            false => {}
        }
    }
}
