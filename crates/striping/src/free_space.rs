//! Free space for striped files, as reported to clients (rule 10).
//!
//! What must never enter: which data servers get stripes.

use pool::Holding;
use vfs::Space;

use crate::striped::StripedFiles;

impl StripedFiles {
    /// The free space of the tree with striped files. `own` is the space of the store that has their rows.
    pub(crate) fn free_space(&self, own: Space) -> Space {
        match self.said_of_space() {
            Some((said, width)) => over(own, &said, width),
            None => own,
        }
    }

    /// The same for the copy of a replicated tree. Until a data server has reported, the local disk counts: clients of other copies must
    /// not be refused a change because this home has just started.
    pub(crate) fn space_for_contents(&self, own: Space) -> Space {
        match self.said_of_space() {
            Some((said, width)) if !said.is_empty() => over(own, &said, width),
            _ => own,
        }
    }

    /// The reports of the data servers over which new files are striped, and the number of these servers.
    fn said_of_space(&self) -> Option<(Vec<Holding>, u64)> {
        let view = self.view();
        let group = view.groups.get(&view.new_files?.group)?;
        let driver = self.driver().ok()?;
        let said = group.members().iter();
        let said = said.filter_map(|server| driver.control().holding(*server));
        Some((said.collect(), group.members().len() as u64))
    }
}

/// Stripes use all data servers in turn, so the smallest free space limits all of them. The home's own disk must have space for rows. Of
/// `width` data servers, those that have not reported since the home began are assumed to be like the others.
fn over(own: Space, servers: &[Holding], width: u64) -> Space {
    let Some(least_bytes) = servers.iter().map(|said| said.available_bytes).min() else {
        // No data server has reported yet, so nothing can be written.
        return Space {
            free_bytes: 0,
            available_bytes: 0,
            ..own
        };
    };
    let sum = |bytes: fn(&Holding) -> u64| {
        let said = servers.iter().map(|said| u128::from(bytes(said)));
        let all = said.sum::<u128>() * u128::from(width) / servers.len() as u128;
        u64::try_from(all).unwrap_or(u64::MAX)
    };
    let available_bytes = match own.available_bytes {
        0 => 0,
        _ => least_bytes.saturating_mul(width),
    };
    Space {
        total_bytes: sum(|said| said.total_bytes),
        free_bytes: sum(|said| said.available_bytes),
        available_bytes,
        ..own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Space = Space {
        total_bytes: 1000,
        free_bytes: 500,
        available_bytes: 400,
        total_objects: 90,
        free_objects: 80,
    };

    fn server(total_bytes: u64, available_bytes: u64) -> Holding {
        Holding {
            total_bytes,
            available_bytes,
            ..Holding::default()
        }
    }

    #[test]
    fn space_is_the_width_times_the_smallest() {
        let space = over(OWN, &[server(100, 60), server(300, 20), server(50, 50)], 3);
        let told = (space.total_bytes, space.free_bytes, space.available_bytes);
        assert_eq!(told, (450, 130, 60));
        assert_eq!((space.total_objects, space.free_objects), (90, 80));
    }

    #[test]
    fn a_data_server_that_has_said_nothing_yet_counts_as_the_others_do() {
        let space = over(OWN, &[server(100, 60), server(300, 20)], 3);
        let told = (space.total_bytes, space.free_bytes, space.available_bytes);
        assert_eq!(told, (600, 120, 60));
    }

    #[test]
    fn without_space_for_rows_or_any_data_server_nothing_can_be_written() {
        let full = Space {
            available_bytes: 0,
            ..OWN
        };
        assert_eq!(over(full, &[server(100, 60)], 1).available_bytes, 0);
        let unknown = over(OWN, &[], 2);
        assert_eq!((unknown.total_bytes, unknown.available_bytes), (1000, 0));
    }
}
