//! What a replica says about its previous controls, based on a view that is over for the others.

use control::Message as Said;
use peer::Session;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::state::wire::{Applied, Greeting};

/// For this long a forbidden message must not be heard.
const SILENCE: Duration = Duration::from_secs(3);

/// A peer of one replica: reports how far it has applied the replica's stream, takes messages about control, and passes on no decision.
pub(super) struct Withholding {
    impostor: Impostor,
    peer: Peer,
    pub(super) session: Session,
    heard: UnboundedReceiver<(ReplicaSlot, Message)>,
}

impl Withholding {
    async fn of(files: &Crashed, site: &Site, applied: u64) -> Withholding {
        Withholding::wishing(files, site, (applied, 0)).await
    }

    /// The same, and by its own word it has requested this many files.
    pub(super) async fn wishing(files: &Crashed, site: &Site, word: (u64, u64)) -> Withholding {
        Withholding::greeting(files, site, word, true).await
    }

    /// A peer that begins a conversation, or whose first message was lost.
    pub(super) async fn greeting(
        files: &Crashed,
        site: &Site,
        (applied, wished): (u64, u64),
        begins: bool,
    ) -> Withholding {
        let impostor = impersonate(files, LATER).await;
        let heard = impostor.deafen();
        let peer = impostor.call(1, site.address());
        let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
        let greeting = Greeting {
            begins,
            applied,
            held: 2,
            wished,
            taken: None,
            members: files.set_files().member_list().unwrap(),
            certificate: files.signatures().certificate(),
        };
        let greeting = wire::body(Kind::Greeting, &greeting);
        session.send(Lane::Control, greeting).await.unwrap();
        Withholding {
            impostor,
            peer,
            session,
            heard,
        }
    }

    /// Returns when it is told how many files the first replica requests.
    pub(super) async fn until_asked_for(&mut self, wished: u64) {
        let told = async {
            while let Some((_, message)) = self.heard.recv().await {
                if Kind::of(message.kind) == Some(Kind::Greeting) {
                    let said: Greeting = wire::decode(&message.body).unwrap();
                    if said.wished == wished {
                        return;
                    }
                }
            }
            panic!("the session has ended");
        };
        let told = tokio::time::timeout(PATIENCE, told).await;
        told.expect("it is answered");
    }

    /// Returns when it is told that previous controls have ended.
    async fn until_renounced(&mut self) {
        while let Some((_, message)) = self.heard.recv().await {
            if Kind::of(message.kind) != Some(Kind::Control) {
                continue;
            }
            let envelope: Envelope = wire::decode(&message.body).unwrap();
            if matches!(envelope.message, Said::Renounce { .. }) {
                return;
            }
        }
        panic!("the session has ended");
    }

    /// The same for a message that must come soon.
    async fn until_told(&mut self) {
        let told = tokio::time::timeout(PATIENCE, self.until_renounced()).await;
        told.expect("it has everything");
    }

    /// Reports that it has applied the stream up to here.
    async fn has_applied(&self, position: u64) {
        let held_open = 0;
        let applied = Applied {
            position,
            held_open,
        };
        let applied = wire::body(Kind::Applied, &applied);
        self.session.send(Lane::Control, applied).await.unwrap();
    }

    pub(super) fn leave(self) {
        drop((self.session, self.peer, self.impostor));
    }
}

/// The first of three replicas restarted, and knew an old view with only itself and the second, which had everything. Meanwhile the third had
/// replaced the first in the view. The first told the third that its previous controls had ended, before the third had what was made under them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_53_previous_controls_do_not_end_before_members_that_came_meanwhile_have_all()
 {
    let mut set = Set::failing_with(3, |settings| {
        // The first keeps what it controls.
        settings.control.deep_control_idle = 10 * PATIENCE;
        settings.control.directory_control_idle = 10 * PATIENCE;
    })
    .await;
    let third = set.crash(2).await;
    let first = set.sites[0].replica.clone();
    eventually("the third has left the view", || {
        let view = first.view_status();
        first.ready() && view.losses.iter().any(|loss| loss.slot == 3)
    })
    .await;
    let before = set.sites[1].store.applied(ReplicaSlot(1)).unwrap();
    set.sites[0].directory(ROOT, "made").await.unwrap();
    eventually("the second has it, and the first controls it", || {
        let status = first.status();
        let mut peers = status.peers.iter();
        let second = peers.find(|peer| peer.slot == 2).unwrap();
        status.controls_total > 0 && second.lag_updates == 0
    })
    .await;
    drop(first);
    let first = set.crash(0).await;
    set.revive(1, third).await;
    set.revive_until_ready(1).await;
    let agreed = set.sites[0].replica.view_status().epoch;
    let (third, second) = (set.crash(1).await, set.crash(0).await);

    set.revive(0, first).await;
    let site = &set.sites[0];
    let through = *site.store.stable_position().borrow();
    let mut asked = Withholding::of(&second, site, through).await;
    asked.until_told().await;
    assert!(site.replica.view_status().epoch < agreed);
    asked.leave();

    let mut unasked = Withholding::of(&third, site, before).await;
    let second = second.started_as(LATER);
    // It does not miss the third, with which it has no contact.
    let second = second.with(|settings| settings.suspicion = 2 * PATIENCE);
    set.revive(1, second).await;
    let first = set.sites[0].replica.clone();
    eventually("the first knows the later view", || {
        first.view_status().epoch >= agreed
    })
    .await;
    assert!(!first.view_status().takes_part);
    let early = tokio::time::timeout(SILENCE, unasked.until_renounced()).await;
    assert!(early.is_err(), "it lacks what was made");
    unasked.has_applied(through).await;
    unasked.until_told().await;
}
