//! What a client is told that has as many opens as it, or the file, may have (RFC 8881, section 15.2).

use crate::fixture::operations::*;
use crate::fixture::state::*;
use crate::fixture::{Fixture, Plan};
use nfs4::{ArgOp4, NfsStat4, share};
use nfs4_server::Limits;

/// As many owners as one file may have: the next owner was told to wait, for as long as the others had it open.
#[tokio::test]
async fn who_would_be_one_too_many_at_a_file_gets_an_error_and_need_not_wait() {
    const OWNERS: u64 = 16_384;
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let (file, _) = client.open_new("file").await;
    let opening = |number: u64| {
        let args = open_args(&format!("owner {number}"), share::ACCESS_READ);
        client.open_at("/export/file", args)
    };
    let (_, first) = opening(1).await;
    for number in 2..OWNERS {
        opening(number).await;
    }
    let one_more = open_args("one more", share::ACCESS_READ);
    let try_it = || client.status_at("/export/file", [ArgOp4::Open(one_more.clone())]);
    assert_eq!(try_it().await, NfsStat4::ServerFault);
    // Those who have it open go on, and a place that becomes free is given away.
    opening(2).await;
    assert_eq!(client.status_on(&file, [close(first)]).await, NfsStat4::Ok);
    assert_eq!(try_it().await, NfsStat4::Ok);
}

/// A client was told to wait for what it held itself.
#[tokio::test]
async fn a_client_with_as_many_opens_as_it_may_have_gets_an_error() {
    let limits = Limits {
        states_per_client: 2,
        ..Limits::default()
    };
    let fixture = Fixture::with_limits(vec![Plan::open("/export")], limits);
    let (client, other) = (fixture.client().await, fixture.client().await);
    let (file, open) = client.open_new("first").await;
    client.open_new("second").await;
    let third = || [ArgOp4::Open(make_args("opener", "third"))];
    let refused = client.status_at("/export", third()).await;
    assert_eq!(refused, NfsStat4::ServerFault);
    assert_eq!(other.status_at("/export", third()).await, NfsStat4::Ok);
    assert_eq!(client.status_on(&file, [close(open)]).await, NfsStat4::Ok);
    assert_eq!(client.status_at("/export", third()).await, NfsStat4::Ok);
}
