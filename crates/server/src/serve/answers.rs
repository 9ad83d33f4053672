//! The answers of the running server to questions of its administrator.
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

/// The refusal of a witness for questions about contents.
const NO_CONTENTS: &str = "this server is a witness: it votes, and keeps no contents; ask a server that keeps the tree (`meridian set members` shows who does)";

impl Overview {
    /// The answers for the socket in the data directory.
    pub(super) fn into_answering(self: Arc<Overview>) -> Answering {
        Arc::new(move |question| {
            let overview = self.clone();
            Box::pin(async move { overview.answer(question).await })
        })
    }

    async fn answer(&self, question: Question) -> Answer {
        match question {
            Question::Status => Answer::Status(Box::new(self.status().await)),
            Question::Drain(question) => told(self.drain(&question).await, Answer::Drain),
            Question::View => told(self.view().map(Box::new), Answer::View),
            Question::Frozen => told(self.frozen().await, Answer::Frozen),
            Question::Thaw(question) => told(self.thaw(&question).await, Answer::Thaw),
            Question::Scrub(question) => told(self.scrub(question), Answer::Scrub),
            Question::MoveAuthority(to) => {
                told(self.move_authority(to).await, Answer::AuthorityMoved)
            }
            Question::Clients => Answer::Clients(self.clients()),
            Question::Evict(question) => told(self.evict(&question).await, Answer::Clients),
            Question::Reload => {
                let answer = self.reload().await;
                answer.map_or_else(Answer::Misconfigured, Answer::Reloaded)
            }
            Question::Junctions => told(self.junctions(), Answer::Junctions),
            Question::Junction(wish) => told(self.junction(wish).await, Answer::Junction),
            Question::Where(path) => told(self.whereabouts(&path).await, Answer::Whereabouts),
            Question::RemoveDataServer(number) => {
                let removed = self.remove_data_server(number).await;
                told(removed, |()| Answer::DataServerRemoved)
            }
            Question::DrainData(question) => {
                told(self.drain_data(question).await, Answer::DataDrained)
            }
            Question::Rebalance(question) => {
                told(self.rebalance(question).await, Answer::Rebalanced)
            }
            Question::ForgetDataServer(question) => {
                let forgotten = self.forget_data_server(question).await;
                told(forgotten, Answer::DataServerForgotten)
            }
            Question::ReadmitDataServer(number) => {
                let readmitted = self.readmit_data_server(number).await;
                told(readmitted, Answer::DataServerReadmitted)
            }
            Question::Durability(question) => {
                told(self.durability(&question).await, Answer::Durability)
            }
        }
    }

    /// Looks up, and changes on request, when updates of an object are answered.
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
            // The setting was made where the directory is controlled; the own copy may not have it yet.
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

/// The answer to a question that may be refused.
fn told<T>(found: Result<T, String>, answer: impl FnOnce(T) -> Answer) -> Answer {
    found.map_or_else(Answer::Refused, answer)
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

/// The error text for a path that cannot be looked up or changed.
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
