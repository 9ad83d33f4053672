//! What a signature proves to somebody who did not hear its maker.

use super::replica::TestSet;
use crate::{Identity, Signatures, Unproven};

fn signatures(set: &TestSet, slot: u16) -> Signatures {
    Signatures::new(set.identity(slot)).expect("a key and a certificate")
}

#[tokio::test]
async fn a_signature_proves_its_maker_and_its_meaning_and_nothing_else() {
    let set = TestSet::of(2).await;
    let (first, second) = (signatures(&set, 1), signatures(&set, 2));
    let [one, two] = [1, 2].map(|slot| set.identity(slot).slot());
    let certificate = second.certificate();
    let signature = second.sign("updates", b"made");
    let verify = |by, certificate: &[u8], meaning, bytes| {
        first.verify((by, certificate), meaning, bytes, &signature)
    };
    assert_eq!(verify(two, &certificate, "updates", b"made"), Ok(()));
    let unsigned = Err(Unproven::Signature);
    assert_eq!(verify(two, &certificate, "updates", b"mad"), unsigned);
    assert_eq!(verify(two, &certificate, "marks", b"made"), unsigned);
    assert_eq!(
        verify(one, &first.certificate(), "updates", b"made"),
        unsigned
    );
    let other = Err(Unproven::OtherReplica);
    assert_eq!(verify(one, &certificate, "updates", b"made"), other);
    assert_eq!(verify(two, b"no certificate", "updates", b"made"), other);
}

#[tokio::test]
async fn a_certificate_of_another_authority_proves_nothing() {
    let (set, mut other) = (TestSet::of(1).await, TestSet::of(2).await);
    let first = signatures(&set, 1);
    let stranger = other.identities.pop().expect("the second");
    let slot = stranger.slot();
    let stranger = Signatures::new(&stranger).expect("a key and a certificate");
    let of_another_set = first.verify_certificate(slot, &stranger.certificate());
    assert_eq!(of_another_set, Err(Unproven::OtherReplica));
    // As if it bore the same name.
    let claiming = Identity {
        set: other.identity(1).set(),
        slot: set.identity(1).slot(),
        certificate: set.identity(1).certificate.clone(),
        key: set.identity(1).key.clone_key(),
        authority: set.identity(1).authority.clone(),
    };
    let claiming = Signatures::new(&claiming).expect("a key and a certificate");
    let refused = claiming.verify_certificate(slot, &stranger.certificate());
    assert_eq!(refused, Err(Unproven::Certificate));
}
