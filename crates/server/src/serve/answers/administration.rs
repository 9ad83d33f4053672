//! Answers about the members of the set, and the decision to give up data that only a lost replica had.
//!
//! What must never enter: how questions arrive, and the effect of a decision.

use std::sync::Arc;

use replica::{REASON_BYTES_MAX, Replica};
use vfs::ObjectKind;

use super::{NO_CONTENTS, find};
use crate::serve::overview::Overview;
use crate::serve::pool::{MetadataServer, Role};
use crate::status::{
    ClientStatus, DrainDataAnswer, DrainDataQuestion, EvictQuestion, ForgetAnswer, ForgetQuestion,
    FrozenView, RebalanceAnswer, RebalanceQuestion, Rows, ScrubQuestion, ScrubView, ThawAnswer,
    ThawQuestion, ViewStatus, Whereabouts,
};

impl Overview {
    /// The connected clients.
    pub(in crate::serve) fn clients(&self) -> Rows<ClientStatus> {
        Rows::of(self.service.clients().iter().map(ClientStatus::from))
    }

    /// Removes all state of the selected clients.
    pub(super) async fn evict(
        &self,
        question: &EvictQuestion,
    ) -> Result<Rows<ClientStatus>, String> {
        let mut evicted = Vec::new();
        for view in self.service.clients() {
            let client = ClientStatus::from(&view);
            if question.means(&client) && self.service.evict(view.id).await {
                tracing::warn!(
                    client = client.name,
                    address = %client.address,
                    opens = client.opens,
                    locks = client.locks,
                    "a client was sent away by the administrator; what it held is let go"
                );
                evicted.push(client);
            }
        }
        if evicted.is_empty() {
            return Err(
                "there is no such client; `meridian clients` lists those that there are".to_owned(),
            );
        }
        Ok(Rows::of(evicted))
    }

    /// The view, with the decisions that led to it.
    pub(super) fn view(&self) -> Result<ViewStatus, String> {
        Ok(self.replica()?.view_status())
    }

    /// Everything that is frozen.
    pub(in crate::serve) async fn frozen(&self) -> Result<Rows<FrozenView>, String> {
        let replica = self.replica()?.clone();
        let asked = tokio::task::spawn_blocking(move || replica.frozen()).await;
        let (rows, more) = asked.map_err(|error| error.to_string())?;
        Ok(Rows { rows, more })
    }

    /// Reports what thawing would give up, or thaws.
    pub(super) async fn thaw(&self, question: &ThawQuestion) -> Result<ThawAnswer, String> {
        let replica = self.replica()?;
        if replica.is_witness() {
            return Err(NO_CONTENTS.to_owned());
        }
        let (lost, reason) = (question.lost, question.reason.trim());
        let view = replica.view_status();
        check_thaw(&view, lost, reason)?;
        let mut frozen = self.frozen().await?;
        frozen.rows.retain(|frozen| frozen.slot == lost);
        let loss = view.losses.into_iter().find(|loss| loss.slot == lost);
        let answer = ThawAnswer {
            lost,
            done: question.meant,
            frozen,
            waits_for: loss.and_then(|loss| loss.waits_for),
        };
        if question.meant {
            replica.thaw(lost, reason).await?;
            tracing::warn!(lost, reason, "what a lost replica alone had is given up");
        }
        Ok(answer)
    }

    /// Reports the state of the comparison of the copies, and begins one on request.
    pub(super) fn scrub(&self, question: ScrubQuestion) -> Result<ScrubView, String> {
        let replica = self.replica()?;
        if question.start && replica.is_witness() {
            return Err(NO_CONTENTS.to_owned());
        }
        if question.start {
            replica.scrub();
            tracing::info!("comparing this copy with the others");
        }
        Ok(replica.scrub_status())
    }

    /// Moves the set's authority to another member.
    pub(super) async fn move_authority(&self, to: u16) -> Result<bool, String> {
        let confirmed = self.replica()?.move_authority(to).await?;
        tracing::warn!(to, confirmed, "the set's authority was moved");
        Ok(confirmed)
    }

    /// The location of a file of the striped tree.
    pub(super) async fn whereabouts(&self, path: &str) -> Result<Whereabouts, String> {
        let server = self.metadata_server()?;
        let mut trees = self.trees.iter();
        let tree = trees.find(|tree| tree.name == server.tree());
        let tree = tree.ok_or("the tree whose files are striped is not served; see the log")?;
        let file = find(&*tree.file_system, path).await?;
        match file.kind {
            ObjectKind::File => server.whereabouts(path, &file).await,
            _ => Err(format!(
                "{path} is no file, and has nothing on data servers; name a file"
            )),
        }
    }

    /// Removes a data server from the pool, if it holds no files.
    pub(super) async fn remove_data_server(&self, number: u16) -> Result<(), String> {
        self.metadata_server()?.remove(number).await
    }

    /// Stops striping new files over a data server, or starts again.
    pub(super) async fn drain_data(
        &self,
        question: DrainDataQuestion,
    ) -> Result<DrainDataAnswer, String> {
        self.metadata_server()?.drain_data(question).await
    }

    /// Spreads files over added data servers, or stops that.
    pub(super) async fn rebalance(
        &self,
        question: RebalanceQuestion,
    ) -> Result<RebalanceAnswer, String> {
        self.metadata_server()?.rebalance(question).await
    }

    /// Gives up a lost data server, or reports what that would mean.
    pub(super) async fn forget_data_server(
        &self,
        question: ForgetQuestion,
    ) -> Result<ForgetAnswer, String> {
        self.metadata_server()?.forget(question).await
    }

    /// Lets a data server serve again, although an older copy of its contents was detected.
    pub(super) async fn readmit_data_server(&self, number: u16) -> Result<bool, String> {
        self.metadata_server()?.readmit(number).await
    }

    fn metadata_server(&self) -> Result<&Arc<MetadataServer>, String> {
        match &self.pool {
            Some(Role::Metadata(server)) => Ok(server),
            Some(Role::Data(_)) => {
                Err("this is a data server; run this on the pool's metadata server".to_owned())
            }
            Some(Role::Joined(_)) => Err(
                "this metadata server has joined the pool; run this on the pool's first metadata server"
                    .to_owned(),
            ),
            None => Err(
                "this server belongs to no pool; begin one with `meridian pool create`".to_owned(),
            ),
        }
    }

    fn replica(&self) -> Result<&Arc<Replica>, String> {
        let mut replicas = self.trees.iter().filter_map(|tree| tree.replica.as_ref());
        replicas.next().ok_or_else(|| {
            "this server belongs to no set, so there is no view; `meridian set create` begins a set"
                .to_owned()
        })
    }
}

/// Why thawing is useless, and what to do instead.
fn check_thaw(view: &ViewStatus, lost: u16, reason: &str) -> Result<(), String> {
    if reason.is_empty() {
        return Err(
            "say with --reason why its changes are given up; it is kept on record".to_owned(),
        );
    }
    if reason.len() > REASON_BYTES_MAX {
        return Err(format!(
            "the reason has {} bytes, and the record keeps {REASON_BYTES_MAX}; shorten what --reason says",
            reason.len()
        ));
    }
    let member = view.members.iter().find(|member| member.slot == lost);
    if member.is_some_and(|member| member.active) {
        return Err(format!(
            "replica {lost} is in the view, so nothing of it is frozen; `meridian view` shows who is away"
        ));
    }
    match view.losses.iter().find(|loss| loss.slot == lost) {
        Some(loss) if loss.settled => Err(format!(
            "nothing of replica {lost} is frozen any more; `meridian view` shows when that was decided"
        )),
        Some(_) => Ok(()),
        None if member.is_some() => Err(format!(
            "replica {lost} has left nothing behind that could be thawed; `meridian frozen` lists what is frozen"
        )),
        None => Err(format!(
            "there is no replica {lost} in the set; `meridian view` lists them"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::examples;

    #[test]
    fn only_what_a_lost_replica_left_behind_can_be_thawed() {
        let mut view = examples::view();
        assert_eq!(check_thaw(&view, 3, "it burnt down"), Ok(()));
        for (lost, reason, parts) in [
            (3, "", "--reason"),
            (3, &"x".repeat(REASON_BYTES_MAX + 1), "shorten"),
            (1, "why not", "is in the view"),
            (9, "why not", "no replica 9"),
        ] {
            let refused = check_thaw(&view, lost, reason).unwrap_err();
            assert!(refused.contains(parts), "{refused}");
        }
        view.losses[0].settled = true;
        let refused = check_thaw(&view, 3, "again").unwrap_err();
        assert!(refused.contains("any more"), "{refused}");
        view.losses.clear();
        let refused = check_thaw(&view, 3, "again").unwrap_err();
        assert!(refused.contains("nothing behind"), "{refused}");
    }
}
