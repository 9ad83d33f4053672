//! Writes handed to a primary that loses them before they are stable: the client learns of it by the write verifier, and
//! sends them again (rule 18; RFC 8881, section 18.32.3).

use std::time::Duration;

use crate::fixture::{ROOT, Set, Site, WRITE, eventually, patiently, root};
use bytes::Bytes;
use vfs::{AccessCheck, FileSystem, ObjectId, Stability, WriteVerifier};

/// More than is kept among the rows.
const LENGTH: usize = 100_000;

/// Whose verifier a server tells its clients for what another one has done.
#[derive(Clone, Copy)]
enum Told {
    /// That of the primary which holds the data.
    OfPrimary,
    /// Its own, as if the rule were switched off.
    Own,
}

/// A client that writes without asking for stability, and keeps what it has written until that is committed.
struct Client<'a> {
    site: &'a Site,
    told: Told,
    file: ObjectId,
    bytes: &'a [u8],
}

impl Client<'_> {
    /// What the server makes of a verifier for its client.
    async fn tell(&self, of_primary: WriteVerifier) -> WriteVerifier {
        match self.told {
            Told::OfPrimary => of_primary,
            Told::Own => {
                let own = self.site.store.commit(self.file, 0, 0).await;
                own.unwrap().verifier
            }
        }
    }

    async fn write(&self) -> WriteVerifier {
        let who = root();
        let bytes = || Bytes::copy_from_slice(self.bytes);
        let files = &self.site.files;
        let written = patiently(|| {
            let by = AccessCheck::Open(&who);
            files.write(by, self.file, 0, bytes(), Stability::Unstable)
        });
        self.tell(written.await.unwrap().verifier).await
    }

    async fn commit(&self) -> WriteVerifier {
        let files = &self.site.files;
        let committed = patiently(|| files.commit(self.file, 0, 0)).await;
        self.tell(committed.unwrap().verifier).await
    }

    /// Commits what was written under this verifier, and writes it again as long as it may be lost.
    async fn commit_since(&self, mut written: WriteVerifier) {
        while self.commit().await != written {
            written = self.write().await;
        }
    }
}

/// B's client writes to a file that A controls. A loses the bytes with its power, and is started again before the client
/// commits. Returns what everybody reads then.
async fn play_22(told: Told) -> Vec<u8> {
    // Nothing is sent on before A is lost, and of two replicas none goes on without the other.
    let delay = Duration::from_secs(5);
    let mut set = Set::failing_with(2, |settings| settings.data_delay = delay).await;
    let (before, after) = (vec![b'o'; LENGTH], vec![b'n'; LENGTH]);
    let file = set.sites[0].save(ROOT, "file", &before).await.unwrap();
    set.sites[0].write_stably(file, &before).await.unwrap();
    set.rest().await;
    set.sites[0].open(file, "process", WRITE).await.unwrap();
    set.sites[0].write(file, 0, b"o").await.unwrap();
    let second = set.sites[1].replica.clone();
    let known = || second.status().controls_total > 0;
    eventually("the second one knows of the first one's control", known).await;

    let client = Client {
        site: &set.sites[1],
        told,
        file,
        bytes: &after,
    };
    let written = client.write().await;
    assert!(second.status().forwarded > 0);
    drop(second);
    let crashed = set.crash(0).await;
    crashed.lose_what_was_written(file, &before);
    set.revive(0, crashed).await;
    set.revive_until_ready(0).await;
    let client = Client {
        site: &set.sites[1],
        told,
        file,
        bytes: &after,
    };
    client.commit_since(written).await;
    set.assert_equal().await;
    set.sites[1].read(file).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_22_a_client_learns_that_the_primary_has_lost_what_it_wrote() {
    let read = play_22(Told::OfPrimary).await;
    assert!(read == [b'n'; LENGTH], "what was committed is there");
    let read = play_22(Told::Own).await;
    assert!(read == [b'o'; LENGTH], "nobody has told the client");
}
