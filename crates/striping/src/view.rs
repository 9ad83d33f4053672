//! What a home knows of its pool: the part of the book that striping needs.

use std::collections::{BTreeMap, BTreeSet};

use pool::home::FileRow;
use pool::{
    DataServerNumber, DeviceGroup, DeviceGroupNumber, Generation, HomeNumber, LayoutKind,
    Placement, PlacementNumber, PoolId, StripeUnit, Stripes,
};
use vfs::{Error, ObjectId, Result};

/// The pool, as its book describes it. Groups and servers may be added, but never changed or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// The pool.
    pub pool: PoolId,
    /// The home whose files these are.
    pub home: HomeNumber,
    /// Its data servers.
    pub servers: BTreeSet<DataServerNumber>,
    /// Data servers that are lost for good, with everything on them.
    pub forgotten: BTreeSet<DataServerNumber>,
    /// Groups over which files are striped.
    pub groups: BTreeMap<DeviceGroupNumber, DeviceGroup>,
    /// How new files are striped. `None` while they are stored at the metadata server.
    pub new_files: Option<NewFiles>,
}

/// How new files are striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFiles {
    /// The group, one of [`PoolView::groups`].
    pub group: DeviceGroupNumber,
    /// The size of the pieces.
    pub unit: StripeUnit,
}

/// Where the bytes of one file are. The row's size is not used: the store has it. The row has only members that are not lost for good.
#[derive(Clone, Debug)]
pub(crate) struct Whereabouts {
    pub(crate) members: Vec<DataServerNumber>,
    pub(crate) stripes: Stripes,
    pub(crate) row: FileRow,
    /// A stored row names these contents. If not, they are the new ones of a file that is being moved.
    pub(crate) is_named: bool,
}

impl Whereabouts {
    /// Whether a part of the file may have been on a data server that is lost for good.
    pub(crate) fn has_lost(&self) -> bool {
        self.members.len() != self.row.members.len()
    }
}

impl PoolView {
    /// A placement for a new file. Files begin at different data servers, so that small files are spread, too.
    pub(crate) fn place(&self, id: ObjectId) -> Option<Placement> {
        self.place_over(id, self.new_files?)
    }

    /// A placement for a file over this group, if the group exists.
    pub(crate) fn place_over(
        &self,
        id: ObjectId,
        NewFiles { group, unit }: NewFiles,
    ) -> Option<Placement> {
        let members = self.groups.get(&group)?.members().len() as u64;
        let first_index = (id.as_u64() % members) as u16;
        Some(Placement {
            pool: self.pool,
            kind: LayoutKind::Files,
            number: PlacementNumber(1),
            unit,
            group,
            first_index,
            generation: Generation::FIRST,
        })
    }

    /// Decodes a stored placement.
    pub(crate) fn find(&self, id: ObjectId, stored: &[u8]) -> Result<Whereabouts> {
        let damaged = |what: &dyn std::fmt::Display| {
            Error::Io(format!(
                "the placement of object {id} cannot be used: {what}"
            ))
        };
        let placement = Placement::decode(stored).map_err(|error| damaged(&error))?;
        if placement.pool != self.pool {
            return Err(damaged(&"it is of another pool"));
        }
        let group = self.groups.get(&placement.group);
        let group = group.ok_or_else(|| damaged(&"its device group is not in the pool's book"))?;
        let stripes = placement.stripes(group).map_err(|error| damaged(&error))?;
        let row = FileRow {
            contents: pool::ContentsId {
                object: id,
                placement: placement.number,
            },
            generation: placement.generation,
            members: (group.members().iter().copied())
                .filter(|member| !self.forgotten.contains(member))
                .collect(),
            size: 0,
            unsettled: false,
        };
        Ok(Whereabouts {
            members: group.members().to_vec(),
            stripes,
            row,
            is_named: true,
        })
    }
}
