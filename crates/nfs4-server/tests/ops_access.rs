//! ACCESS.

use crate::fixture::operations::*;
use crate::fixture::{Fixture, Successful, last, mode};
use nfs4::access::{DELETE, EXECUTE, EXTEND, LOOKUP, MODIFY, READ, XALIST, XAREAD, XAWRITE};
use nfs4::{AccessResOk, NfsStat4, Stateid4};

#[tokio::test]
async fn access_answers_by_mode_and_kind() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    client
        .at("/export/file", [setattr(Stateid4::ANONYMOUS, mode(0o754))])
        .await
        .ok();
    client
        .at(
            "/export/directory",
            [setattr(Stateid4::ANONYMOUS, mode(0o754))],
        )
        .await
        .ok();
    let all = READ | LOOKUP | MODIFY | EXTEND | DELETE | EXECUTE | XAREAD | XAWRITE | XALIST;
    let member = client.as_user(1000, 0, &[]);
    let other = client.as_user(1000, 1000, &[]);
    let of_file = all & !(LOOKUP | DELETE);
    let of_directory = all & !EXECUTE;
    let cases = [
        (&client, "/export/file", of_file, of_file),
        (
            &member,
            "/export/file",
            of_file,
            READ | EXECUTE | XAREAD | XALIST,
        ),
        (&other, "/export/file", of_file, READ | XAREAD | XALIST),
        (&client, "/export/directory", of_directory, of_directory),
        (
            &member,
            "/export/directory",
            of_directory,
            READ | LOOKUP | XAREAD | XALIST,
        ),
        (
            &other,
            "/export/directory",
            of_directory,
            READ | XAREAD | XALIST,
        ),
    ];
    for (caller, path, supported, granted) in cases {
        let answer = last!(caller.at(path, [access(all)]).await, Access);
        assert_eq!(
            answer,
            AccessResOk {
                supported,
                access: granted
            },
            "{path}"
        );
    }
}

#[tokio::test]
async fn access_answers_only_what_is_asked_and_known() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for bits in 0..0x200 {
        let answer = last!(client.at("/export/fifo", [access(bits)]).await, Access);
        assert_eq!(answer.supported & !bits, 0);
        assert_eq!(answer.access & !answer.supported, 0);
        assert_eq!(answer.supported & (LOOKUP | DELETE | EXECUTE), 0);
    }
    let of_2 = XAREAD | XAWRITE | XALIST;
    let older = client.with_minor_version(1);
    let answer = last!(
        older.at("/export/file", [access(of_2 | READ)]).await,
        Access
    );
    assert_eq!(
        answer,
        AccessResOk {
            supported: READ,
            access: READ
        }
    );
    assert_eq!(
        client.compound(vec![access(READ)]).await.status,
        NfsStat4::NoFileHandle
    );
}
