//! Contents that belong to no file (rule 8): an ordinary intent removes them.
//!
//! The caller has the rows, and knows how long no row has named the contents.

use super::file::FileRow;
use super::{Command, Home};
use crate::message::{Act, ContentsId};
use crate::numbers::{DataServerNumber, Generation};
use std::collections::BTreeSet;

impl Home {
    /// Contents with decisions that the rows do not show, or do not show yet.
    #[must_use]
    pub fn concerned(&self) -> BTreeSet<ContentsId> {
        let intents = self.intents.values().map(|owed| owed.intent.contents);
        let files = self.files.values().flat_map(|file| {
            let moving = file.moving.as_ref().map(|moving| moving.contents());
            moving.into_iter().chain([file.row.contents])
        });
        intents.chain(files).collect()
    }

    /// Removes contents of a data server that belong to no file. Leaves contents alone that are
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
