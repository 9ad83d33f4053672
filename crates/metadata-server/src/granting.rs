//! Which answers of the home others may keep: attributes and names that did not change while the home read them.
//!
//! What must never enter: what is asked of the tree, and how copies are invalidated.

use vfs::ObjectId;

use crate::home::{Asker, Asking, Home};
use crate::question::{Answer, Asked, Granted, Question, Reply};

/// At most this many attempts to read something unchanged. After that the answer is not kept.
const READINGS: usize = 3;

impl Question {
    /// The object that a keepable answer is about.
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

    /// The directory whose attributes decide which clients may be answered from a copy.
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
    /// The objects that the answer describes.
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
    /// Answers a question about the tree that the asker names.
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
            // An open file's attributes can be read again.
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

    /// An answer with its grant. `Err`: the answer, if something changed during the read.
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
        // Checked after the grant: before a client writes at the data servers from now on, the copies are invalidated.
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
