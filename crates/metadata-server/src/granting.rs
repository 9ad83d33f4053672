//! What the home lets others keep of its answers: those about attributes and names that nothing has changed while they were read.
//!
//! What must never enter: what is asked of the tree, and how copies are taken back.

use vfs::ObjectId;

use crate::home::{Asker, Asking, Home};
use crate::question::{Answer, Asked, Granted, Question, Reply};

/// So often something is read again that has changed meanwhile; after that it is not kept.
const READINGS: usize = 3;

impl Question {
    /// The object that an answer which may be kept is about.
    pub(crate) fn kept_of(&self) -> Option<ObjectId> {
        match self {
            Question::Attributes(id)
            | Question::Lookup(_, id, _)
            | Question::Parent(_, id)
            | Question::ReadDirectory(_, id, ..)
            | Question::ReadLink(_, id) => Some(*id),
            _ => None,
        }
    }

    /// The directory whose attributes say who may be answered from a copy.
    fn directory(&self) -> Option<ObjectId> {
        match self {
            Question::Lookup(..) | Question::Parent(..) | Question::ReadDirectory(..) => {
                self.kept_of()
            }
            _ => None,
        }
    }
}

impl Answer {
    /// The objects that it tells something of.
    fn tells_of(&self) -> Vec<ObjectId> {
        match self {
            Answer::Attributes(found) => vec![found.id],
            Answer::Page(page) => {
                let entries = page.entries.iter();
                entries.map(|entry| entry.attributes.id).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Home {
    /// Answers a question about the tree that the asker means.
    pub async fn answer(&self, asker: Asker, asked: Asked) -> Reply {
        let Asked {
            tree,
            keeps,
            clients,
            mut question,
        } = asked;
        let asking = Asking {
            server: asker.server,
            run: asker.run,
            clients,
        };
        if let Err(error) = self.check_tree(tree) {
            return Reply::of(Err(error));
        }
        if let Some(given_up) = self.hear(asking, &question) {
            return Reply::of(given_up);
        }
        if keeps != Some(self.holders.run()) {
            return Reply::of(self.answer_one(asking, question).await);
        }
        self.holders.meet(asker, true);
        let mut opened = None;
        if let Question::Open(_, id, ..) | Question::OpenAgain(_, id, ..) = &question {
            let id = *id;
            match self.answer_one(asking, question).await {
                Ok(answer) => opened = Some(answer),
                Err(error) => return self.with_lease(asker, Reply::of(Err(error))),
            }
            // What is open can be looked at as often as is needed.
            question = Question::Attributes(id);
        }
        let reply = self.read_to_keep(asking, &question).await;
        match opened {
            Some(opened) if reply.answer.is_err() => self.with_lease(asker, Reply::of(Ok(opened))),
            _ => reply,
        }
    }

    async fn read_to_keep(&self, asker: Asking, question: &Question) -> Reply {
        let Some(about) = question.kept_of() else {
            let reply = Reply::of(self.answer_one(asker, question.clone()).await);
            return self.with_lease(asker.asker(), reply);
        };
        let mut reply = self.read(asker, about, question).await;
        for _ in 1..READINGS {
            match reply {
                Ok(reply) => return reply,
                Err(_) => reply = self.read(asker, about, question).await,
            }
        }
        reply.unwrap_or_else(|changed| self.with_lease(asker.asker(), *changed))
    }

    fn with_lease(&self, asker: Asker, reply: Reply) -> Reply {
        Reply {
            granted: self.holders.grant_lease(asker),
            ..reply
        }
    }

    /// An answer with what it is good for, or one that something has changed while it was read.
    async fn read(
        &self,
        asker: Asking,
        about: ObjectId,
        question: &Question,
    ) -> Result<Reply, Box<Reply>> {
        let unchanged = self.holders.unchanged();
        let mut reply = Reply::of(self.answer_one(asker, question.clone()).await);
        let Ok(answer) = &reply.answer else {
            return Ok(self.with_lease(asker.asker(), reply));
        };
        let mut objects = answer.tells_of();
        if let Some(directory) = question.directory() {
            reply.directory = self.file_system.attributes(directory).await.ok();
        }
        if !objects.contains(&about) {
            objects.push(about);
        }
        let Some(granted) = self.holders.grant(asker.asker(), &objects, unchanged) else {
            return Err(Box::new(reply));
        };
        // Asked for behind the grant: a client that writes past the home from now on has the copies
        // taken back first.
        let is_sure = !objects
            .iter()
            .any(|object| (self.changes_elsewhere)(*object));
        reply.granted = Granted {
            keep: granted.keep && is_sure,
            ..granted
        };
        Ok(reply)
    }
}

impl Reply {
    /// An answer that may not be kept.
    pub(crate) fn of(answer: vfs::Result<Answer>) -> Reply {
        Reply {
            answer,
            granted: Granted::default(),
            directory: None,
        }
    }
}
