//! A handle counts only as its home sealed it, at the data server it was sealed for, as long as its key counts.

use pool::{
    Access, Capability, DataServerNumber, Generation, HANDLE_BYTES, HandleKey, HandleKeys,
    HomeNumber, IssueNumber, KeyNumber, PlacementNumber, Refused,
};
use vfs::ObjectId;

const SERVER: DataServerNumber = DataServerNumber(5);

fn capability(access: Access) -> Capability {
    Capability {
        home: HomeNumber(2),
        issue: IssueNumber(9),
        object: ObjectId::from_u64(0x0002_0000_0000_0044),
        placement: PlacementNumber(1),
        generation: Generation(3),
        access,
    }
}

fn key(number: u32) -> HandleKey {
    HandleKey::new(KeyNumber(number), [number as u8; 32])
}

fn open(keys: &HandleKeys, handle: &[u8]) -> Result<Capability, Refused> {
    Capability::open(handle, SERVER, |home| {
        (home == HomeNumber(2)).then_some(keys)
    })
}

#[test]
fn a_handle_says_at_its_data_server_what_was_sealed() {
    let keys = HandleKeys::new(key(1));
    for access in [Access::Read, Access::ReadWrite] {
        let capability = capability(access);
        let handle = keys.current().seal(&capability, SERVER);
        assert_eq!(open(&keys, handle.as_bytes()), Ok(capability));
        let elsewhere = Capability::open(handle.as_bytes(), DataServerNumber(6), |_| Some(&keys));
        assert_eq!(elsewhere, Err(Refused::WrongSeal));
    }
}

#[test]
fn the_form_of_a_handle_never_changes() {
    let handle = key(1).seal(&capability(Access::ReadWrite), SERVER);
    let fields = [
        &[1, 0, 0, 0, 1, 0, 2][..],
        &[0, 0, 0, 0, 0, 0, 0, 9],
        &[0, 2, 0, 0, 0, 0, 0, 0x44],
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 2],
    ];
    assert_eq!(handle.as_bytes()[..36], fields.concat());
    let keyed = blake3::keyed_hash(&[1; 32], &[&fields.concat()[..], &[0, 5]].concat());
    assert_eq!(handle.as_bytes()[36..], keyed.as_bytes()[..16]);
}

#[test]
fn every_flipped_bit_and_every_other_length_is_refused() {
    let mut keys = HandleKeys::new(key(1));
    keys.rotate(key(2));
    let handle = keys.current().seal(&capability(Access::Read), SERVER);
    for bit in 0..HANDLE_BYTES * 8 {
        let mut flipped = *handle.as_bytes();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // The keys are the same for every home that the bytes name.
        let refused = Capability::open(&flipped, SERVER, |_| Some(&keys));
        assert!(refused.is_err(), "bit {bit} of {handle:?}");
    }
    for length in 0..HANDLE_BYTES {
        assert!(
            open(&keys, &handle.as_bytes()[..length]).is_err(),
            "{length} bytes"
        );
    }
    assert!(open(&keys, &[handle.as_bytes(), &[0][..]].concat()).is_err());
}

#[test]
fn the_key_before_still_counts_and_the_one_before_that_does_not() {
    let mut keys = HandleKeys::new(key(1));
    let first = keys.current().seal(&capability(Access::Read), SERVER);
    keys.rotate(key(2));
    assert!(open(&keys, first.as_bytes()).is_ok());
    keys.rotate(key(2));
    assert!(
        open(&keys, first.as_bytes()).is_ok(),
        "the same key came once more"
    );
    keys.rotate(key(3));
    assert_eq!(open(&keys, first.as_bytes()), Err(Refused::UnknownKey));
    assert!(
        open(
            &keys,
            keys.current()
                .seal(&capability(Access::Read), SERVER)
                .as_bytes()
        )
        .is_ok()
    );
}

#[test]
fn a_home_that_is_unknown_gives_no_right() {
    let keys = HandleKeys::new(key(1));
    let foreign = Capability {
        home: HomeNumber(3),
        ..capability(Access::Read)
    };
    let handle = keys.current().seal(&foreign, SERVER);
    assert_eq!(open(&keys, handle.as_bytes()), Err(Refused::UnknownKey));
}

#[test]
fn the_secret_is_in_no_debug_output() {
    let keys = HandleKeys::new(HandleKey::new(KeyNumber(1), [0xab; 32]));
    let shown = format!(
        "{keys:?} {:?}",
        keys.current().seal(&capability(Access::Read), SERVER)
    );
    assert!(!shown.contains("171") && !shown.contains("abab"), "{shown}");
}

proptest::proptest! {
    /// The same as `fuzz/fuzz_targets/pool.rs`, without its search.
    #[test]
    fn bytes_of_others_are_refused_and_panic_nothing(
        mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..160),
        version in proptest::bool::ANY,
    ) {
        if let Some(first) = bytes.first_mut().filter(|_| version) {
            *first = 1;
        }
        pool::decode_as_anything(&bytes);
    }
}
