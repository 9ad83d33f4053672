//! Contents that belong to nothing (rule 8): their removal is an intent like any other.
//!
//! The caller has the rows, and knows for how long no row has named the contents.

use super::file::FileRow;
use super::{Command, Home};
use crate::message::{Act, ContentsId};
use crate::numbers::{DataServerNumber, Generation};
use std::collections::BTreeSet;

impl Home {
    /// The contents about which something is decided that rows do not say, or do not say yet.
    #[must_use]
    pub fn concerned(&self) -> BTreeSet<ContentsId> {
        let intents = self.intents.values().map(|owed| owed.intent.contents);
        let files = self.files.values().flat_map(|file| {
            let moving = file.moving.as_ref().map(|moving| moving.contents());
            moving.into_iter().chain([file.row.contents])
        });
        intents.chain(files).collect()
    }

    /// Contents that a data server has, and that belong to nothing, are to go. Nothing is done about contents that are
    /// [concerned](Home::concerned).
    pub fn sweep(
        &mut self,
        server: DataServerNumber,
        contents: ContentsId,
        generation: Generation,
    ) -> Vec<Command> {
        if !self.concerned().contains(&contents) {
            let row = FileRow {
                contents,
                generation: generation.next(),
                members: vec![server],
                size: 0,
                unsettled: false,
            };
            self.intend_aside(&row, Act::Remove);
        }
        self.take_commands()
    }
}
