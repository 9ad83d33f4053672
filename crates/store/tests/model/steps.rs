//! The possible steps, and their probabilities.

use proptest::prelude::*;

/// The next step. Objects are chosen by number among all that were created, names among a few, so that
/// operations affect each other.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Make {
        directory: usize,
        name: u8,
        kind: Kind,
    },
    Remove {
        directory: usize,
        name: u8,
    },
    Rename {
        from: (usize, u8),
        to: (usize, u8),
    },
    Link {
        object: usize,
        directory: usize,
        name: u8,
    },
    Write {
        object: usize,
        offset: u16,
        length: u16,
        byte: u8,
    },
    Resize {
        object: usize,
        size: u16,
    },
    Punch {
        object: usize,
        offset: u16,
        length: u16,
    },
    SetXattr {
        object: usize,
        name: u8,
        length: u8,
    },
    RemoveXattr {
        object: usize,
        name: u8,
    },
    Open {
        object: usize,
    },
    Close {
        object: usize,
    },
    ListOn {
        directory: usize,
    },
    Reopen {
        gracefully: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let object = 0_usize..12;
    let name = 0_u8..5;
    let place = (object.clone(), name.clone());
    let kind =
        prop_oneof![3 => Just(Kind::File), 3 => Just(Kind::Directory), 1 => Just(Kind::Symlink)];
    let step = prop_oneof![
        8 => (place.clone(), kind)
            .prop_map(|((directory, name), kind)| Step::Make { directory, name, kind }),
        4 => place.clone().prop_map(|(directory, name)| Step::Remove { directory, name }),
        5 => (place.clone(), place.clone()).prop_map(|(from, to)| Step::Rename { from, to }),
        3 => (object.clone(), place)
            .prop_map(|(object, (directory, name))| Step::Link { object, directory, name }),
        4 => (object.clone(), 0_u16..30_000, 0_u16..9000, any::<u8>())
            .prop_map(|(object, offset, length, byte)| Step::Write { object, offset, length, byte }),
        2 => (object.clone(), any::<u16>()).prop_map(|(object, size)| Step::Resize { object, size }),
        2 => (object.clone(), any::<u16>(), 1_u16..20_000)
            .prop_map(|(object, offset, length)| Step::Punch { object, offset, length }),
        2 => (object.clone(), name.clone(), any::<u8>())
            .prop_map(|(object, name, length)| Step::SetXattr { object, name, length }),
        1 => (object.clone(), name).prop_map(|(object, name)| Step::RemoveXattr { object, name }),
        2 => object.clone().prop_map(|object| Step::Open { object }),
        2 => object.clone().prop_map(|object| Step::Close { object }),
        4 => object.prop_map(|directory| Step::ListOn { directory }),
        1 => any::<bool>().prop_map(|gracefully| Step::Reopen { gracefully }),
    ];
    proptest::collection::vec(step, 1..80)
}
