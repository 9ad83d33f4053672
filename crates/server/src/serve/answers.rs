//! What the running server answers to questions of its administrator.
//!
//! What must never enter: how questions arrive.

mod administration;

use std::sync::Arc;

use replica::{Durability, Replica};
use vfs::{Attributes, Credentials, FileSystem, Name, ObjectId, ObjectKind};

use super::overview::Overview;
use super::trees::Tree;
use crate::set::MAJORITY_OF_TWO;
use crate::status::{
    Answer, Answering, DurabilityAnswer, DurabilityQuestion, DurabilitySetting, Question,
};

/// What a witness is not asked for.
const NO_CONTENTS: &str = "this server is a witness: it votes, and keeps no contents; ask a server that keeps the tree (`meridian set members` shows who does)";

impl Overview {
    /// Answers of the socket in the data directory.
    pub(super) fn into_answering(self: Arc<Overview>) -> Answering {
        Arc::new(move |question| {
            let overview = self.clone();
            Box::pin(async move {
                match question {
                    Question::Status => Answer::Status(Box::new(overview.status().await)),
                    Question::Drain(question) => {
                        let answer = overview.drain(&question).await;
                        answer.map_or_else(Answer::Refused, Answer::Drain)
                    }
                    Question::View => {
                        let answer = overview.view().map(Box::new);
                        answer.map_or_else(Answer::Refused, Answer::View)
                    }
                    Question::Frozen => {
                        let answer = overview.frozen().await;
                        answer.map_or_else(Answer::Refused, Answer::Frozen)
                    }
                    Question::Thaw(question) => {
                        let answer = overview.thaw(&question).await;
                        answer.map_or_else(Answer::Refused, Answer::Thaw)
                    }
                    Question::Scrub(question) => {
                        let answer = overview.scrub(question);
                        answer.map_or_else(Answer::Refused, Answer::Scrub)
                    }
                    Question::MoveAuthority(to) => {
                        let answer = overview.move_authority(to).await;
                        answer.map_or_else(Answer::Refused, Answer::AuthorityMoved)
                    }
                    Question::Clients => Answer::Clients(overview.clients()),
                    Question::Evict(question) => {
                        let answer = overview.evict(&question).await;
                        answer.map_or_else(Answer::Refused, Answer::Clients)
                    }
                    Question::Reload => {
                        let answer = overview.reload().await;
                        answer.map_or_else(Answer::Misconfigured, Answer::Reloaded)
                    }
                    Question::Junctions => {
                        let answer = overview.junctions();
                        answer.map_or_else(Answer::Refused, Answer::Junctions)
                    }
                    Question::Junction(wish) => {
                        let answer = overview.junction(wish).await;
                        answer.map_or_else(Answer::Refused, Answer::Junction)
                    }
                    Question::Where(path) => {
                        let answer = overview.whereabouts(&path).await;
                        answer.map_or_else(Answer::Refused, Answer::Whereabouts)
                    }
                    Question::RemoveDataServer(number) => {
                        let removed = overview.remove_data_server(number).await;
                        removed.map_or_else(Answer::Refused, |()| Answer::DataServerRemoved)
                    }
                    Question::DrainData(question) => {
                        let drained = overview.drain_data(question).await;
                        drained.map_or_else(Answer::Refused, Answer::DataDrained)
                    }
                    Question::Rebalance(question) => {
                        let rebalanced = overview.rebalance(question).await;
                        rebalanced.map_or_else(Answer::Refused, Answer::Rebalanced)
                    }
                    Question::ForgetDataServer(question) => {
                        let forgotten = overview.forget_data_server(question).await;
                        forgotten.map_or_else(Answer::Refused, Answer::DataServerForgotten)
                    }
                    Question::ReadmitDataServer(number) => {
                        let readmitted = overview.readmit_data_server(number).await;
                        readmitted.map_or_else(Answer::Refused, Answer::DataServerReadmitted)
                    }
                    Question::Durability(question) => {
                        let answer = overview.durability(&question).await;
                        answer.map_or_else(Answer::Refused, Answer::Durability)
                    }
                }
            })
        })
    }

    /// Looks up, and changes if asked to, when updates of an object are answered.
    async fn durability(&self, question: &DurabilityQuestion) -> Result<DurabilityAnswer, String> {
        let mut replicated = self.trees.iter().filter_map(replicated);
        let Some((tree, replica)) = replicated.next() else {
            return Err("this server belongs to no set, so it alone keeps its trees, and every change is answered once it has it; `meridian set create` begins a set".to_owned());
        };
        if replica.is_witness() {
            return Err(NO_CONTENTS.to_owned());
        }
        let path = &question.path;
        let object = find(&*tree.file_system, path).await?;
        let mut chosen = None;
        if let Some(setting) = question.set {
            if object.kind != ObjectKind::Directory {
                return Err(format!(
                    "{path} is not a directory; set it for the directory that it is in"
                ));
            }
            if setting == DurabilitySetting::Majority && replica.view_status().has_two_voters() {
                return Err(format!("{MAJORITY_OF_TWO}, then choose majority"));
            }
            chosen = match setting {
                DurabilitySetting::Relaxed => Some(Durability::Relaxed),
                DurabilitySetting::Majority => Some(Durability::Majority),
                DurabilitySetting::Inherit => None,
            };
            let set = replica.set_durability(object.id, chosen).await;
            set.map_err(|error| refusal(path, &error))?;
            let word = setting.word();
            let done = format!("set the durability of {path} to {word}");
            replica.put_on_record(done).await;
        }
        let (durability, from) = match chosen {
            // Set where the directory is controlled; the own copy may not have heard of it yet.
            Some(durability) => (durability, Some(object.id)),
            None => replica.durability(object.id).await,
        };
        let path_of = |from: ObjectId| match tree.store.path_of(from) {
            _ if from == object.id => path.clone(),
            Ok(path) => path,
            Err(_) => format!("object {from}"),
        };
        Ok(DurabilityAnswer {
            path: path.clone(),
            durability,
            from: from.map(path_of),
        })
    }
}

fn replicated(tree: &Tree) -> Option<(&Tree, &Arc<Replica>)> {
    Some((tree, tree.replica.as_ref()?))
}

/// The object at a path from the root of a tree.
async fn find(file_system: &dyn FileSystem, path: &str) -> Result<Attributes, String> {
    let Some(below) = path.strip_prefix('/') else {
        return Err(format!(
            "`{path}` is no path from the root of the tree; write it with a slash in front, such as /projects"
        ));
    };
    let root = file_system.attributes(ObjectId::ROOT).await;
    let mut object = root.map_err(|error| refusal(path, &error))?;
    let everything = Credentials::root();
    for part in below.split('/').filter(|part| !part.is_empty()) {
        let name = Name::new(part.as_bytes().to_vec());
        let name = name.map_err(|error| format!("`{part}` in {path} cannot be a name: {error}"))?;
        let found = file_system.lookup(&everything, object.id, &name).await;
        object = found.map_err(|error| refusal(path, &error))?;
    }
    Ok(object)
}

/// What a person reads whose path cannot be looked at or changed.
fn refusal(path: &str, error: &vfs::Error) -> String {
    use vfs::Error;
    match error {
        Error::NotFound | Error::NotDirectory => format!(
            "there is no {path} in the tree; write the path from the root of the tree, without that of the export"
        ),
        Error::Delay => format!(
            "another replica has to do with {path} and does not answer at present; `meridian status` shows which, ask again later"
        ),
        error => format!("{path}: {error}"),
    }
}
