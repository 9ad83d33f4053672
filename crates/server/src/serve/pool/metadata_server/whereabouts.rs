//! The data servers on which one file lies.
//!
//! What must never enter: searching the tree.

use pool::Placement;
use vfs::{Attributes, ReplicaSlot};

use super::super::connection::Survey;
use super::MetadataServer;
use crate::status::{PartStatus, Whereabouts};

impl MetadataServer {
    /// The tree whose files are striped.
    pub(in crate::serve) fn tree(&self) -> &str {
        &self.place.tree
    }

    /// The data servers with the bytes of a file, beginning with the one that has the first stripe.
    ///
    /// # Errors
    /// Why this is unknown, and what to do next.
    pub(in crate::serve) async fn whereabouts(
        &self,
        path: &str,
        file: &Attributes,
    ) -> Result<Whereabouts, String> {
        let unreadable = |why: String| {
            format!("where {path} lies cannot be read: {why}; see the log, and try again")
        };
        let home = file.id.slot();
        let stored = if self.known.is_metadata_server(home) {
            let survey = Survey::File(file.id.as_u64());
            self.survey_at(home, survey).await?.placement
        } else {
            let stored = self.store.placed_rows().placement(file.id);
            let stored = stored.map_err(|error| unreadable(error.to_string()))?;
            stored.map(|stored| stored.to_vec())
        };
        let mut whereabouts = Whereabouts {
            path: path.to_owned(),
            bytes: file.size,
            stripe_unit_bytes: None,
            parts: Vec::new(),
        };
        if let Some(stored) = stored {
            let placement = Placement::decode(&stored);
            let placement = placement.map_err(|error| unreadable(error.to_string()))?;
            whereabouts.stripe_unit_bytes = Some(placement.unit.bytes());
            let parts = self.parts(&placement, file.size);
            whereabouts.parts = parts.ok_or_else(|| {
                unreadable("its data servers are not in the book of the pool".to_owned())
            })?;
        }
        Ok(whereabouts)
    }

    /// The parts on each data server of a placement. `None` if the book does not know the group.
    fn parts(&self, placement: &Placement, size: u64) -> Option<Vec<PartStatus>> {
        let keeping = self.keeping();
        let group = keeping.book.groups.get(&placement.group)?;
        let stripes = placement.stripes(group).ok()?;
        let count = group.members().len();
        let parts = (0..count).map(|turn| {
            let index = (turn + usize::from(placement.first_index)) % count;
            let server = group.members()[index].0;
            let member = self.place.member(ReplicaSlot(server));
            PartStatus {
                server,
                name: member.map(|member| member.name).unwrap_or_default(),
                bytes: stripes.bytes_at(index, size),
            }
        });
        Some(parts.collect())
    }
}
