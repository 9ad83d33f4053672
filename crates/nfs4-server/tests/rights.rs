//! Who may do what: every operation by owner, group, others and the superuser, squashed and not, and every kind of stateid,
//! against one table of what is answered.

use crate::fixture::operations::*;
use crate::fixture::state::*;
use crate::fixture::{
    CLIENT_ADDRESS, Client, Fixture, Plan, Successful, encoded, last, mode, rule,
};
use nfs4::attributes::Settime4;
use nfs4::{
    AllocateArgs, ArgOp4, Attr, Attributes4, Bitmap4, CreateHow4, CreateType4, DataContent4,
    DeallocateArgs, NfsFh4, NfsLockType4, NfsStat4, OpenFlag4, SeekArgs, SetxattrOption4,
    StableHow4, Stateid4, Verifier4, share,
};
use nfs4_server::{AccessMode, AccessRule, Squash};
use xdr::Bytes;

use NfsStat4::{Access, BadStateid, Ok as Done, OldStateid, OpenMode, Perm};

/// From where the superuser is somebody like others.
const SQUASHED: &str = "192.0.2.9";

const OWNER: u32 = 10;
const GROUP: u32 = 20;

/// Everything is made by the superuser and then given to the owner.
struct World {
    root: Client,
    /// The owner, a member of the group, somebody else, the superuser, and the superuser squashed.
    callers: [(&'static str, Client); 5],
    /// Another client, whose user is the owner.
    stranger: Client,
    made: std::cell::Cell<u32>,
    _fixture: Fixture,
}

impl World {
    async fn new() -> World {
        let squashing = AccessRule {
            squash: Squash::Root,
            ..rule(SQUASHED, AccessMode::ReadWrite)
        };
        let fixture = Fixture::with(vec![Plan {
            path: "/export",
            rules: vec![rule(CLIENT_ADDRESS, AccessMode::ReadWrite), squashing],
        }]);
        let root = fixture.client().await;
        let callers = [
            ("owner", root.as_user(OWNER, 1, &[])),
            ("member", root.as_user(11, 1, &[GROUP])),
            ("other", root.as_user(12, 1, &[])),
            ("root", root.clone()),
            (
                "squashed root",
                root.over(fixture.connection_from(SQUASHED)),
            ),
        ];
        World {
            stranger: fixture.client().await.as_user(OWNER, 1, &[]),
            root,
            callers,
            made: std::cell::Cell::new(0),
            _fixture: fixture,
        }
    }

    fn name(&self) -> String {
        self.made.set(self.made.get() + 1);
        format!("object {}", self.made.get())
    }

    async fn give(&self, path: &str, mode: u32) -> NfsFh4 {
        let values = Attributes4 {
            owner: Some(OWNER.to_string().as_str().into()),
            owner_group: Some(GROUP.to_string().as_str().into()),
            ..Attributes4::default()
        };
        // In this order, as a new owner takes the set-id bits.
        let ops = [set(encoded(&values)), set(crate::fixture::mode(mode))];
        self.root.at(path, ops).await.ok();
        self.root.handle(path).await
    }

    /// A directory with a file in it, both the owner's and of the group.
    async fn directory(&self, mode: u32) -> (NfsFh4, NfsFh4) {
        let name = self.name();
        self.root.make("/export", &name, CreateType4::Dir).await;
        let path = format!("/export/{name}");
        self.root.make_file(&path, "file").await;
        let file = self.give(&format!("{path}/file"), 0o640).await;
        (self.give(&path, mode).await, file)
    }

    /// A file with an extended attribute, the owner's and of the group.
    async fn file(&self, mode: u32) -> NfsFh4 {
        let name = self.name();
        self.root.make_file("/export", &name).await;
        let path = format!("/export/{name}");
        let xattr = setxattr(SetxattrOption4::Either, "x", b"value");
        let data = Bytes::from_static(b"content");
        let data = write(Stateid4::ANONYMOUS, 0, StableHow4::FileSync, data);
        self.root.at(&path, [xattr, data]).await.ok();
        self.give(&path, mode).await
    }
}

fn open_file(access: u32) -> ArgOp4 {
    ArgOp4::Open(open_args("opener", access))
}

fn owned_by(user: u32) -> nfs4::Fattr4 {
    encoded(&Attributes4 {
        owner: Some(user.to_string().as_str().into()),
        ..Attributes4::default()
    })
}

fn of_group(group: u32) -> nfs4::Fattr4 {
    encoded(&Attributes4 {
        owner_group: Some(group.to_string().as_str().into()),
        ..Attributes4::default()
    })
}

fn sized(size: u64) -> nfs4::Fattr4 {
    encoded(&Attributes4 {
        size: Some(size),
        ..Attributes4::default()
    })
}

fn set(values: nfs4::Fattr4) -> ArgOp4 {
    setattr(Stateid4::ANONYMOUS, values)
}

type Row = (&'static str, Vec<ArgOp4>, [NfsStat4; 5]);

/// What is asked of a file with mode 0640, and what owner, member, other, root and squashed root are answered.
fn on_files() -> Vec<Row> {
    let readers = [Done, Done, Access, Done, Access];
    let writers = [Done, Access, Access, Done, Access];
    let owners = [Done, Perm, Perm, Done, Perm];
    let anybody = [Done; 5];
    let now = Attributes4 {
        time_modify_set: Some(Settime4::ServerTime),
        ..Attributes4::default()
    };
    let size = Bitmap4::of(&[Attr::Size]);
    vec![
        ("GETATTR", vec![getattr(size)], anybody),
        ("ACCESS", vec![access(0x3f)], anybody),
        ("COMMIT", vec![commit(0, 0)], anybody),
        ("LISTXATTRS", vec![listxattrs(0, 4096)], readers),
        ("GETXATTR", vec![getxattr("x")], readers),
        (
            "SETXATTR",
            vec![setxattr(SetxattrOption4::Either, "x", b"other")],
            writers,
        ),
        ("REMOVEXATTR", vec![removexattr("x")], writers),
        ("OPEN to read", vec![open_file(share::ACCESS_READ)], readers),
        (
            "OPEN to write",
            vec![open_file(share::ACCESS_WRITE)],
            writers,
        ),
        (
            "OPEN for both",
            vec![open_file(share::ACCESS_BOTH)],
            writers,
        ),
        ("SETATTR mode", vec![set(mode(0o600))], owners),
        ("SETATTR time", vec![set(encoded(&now))], writers),
        (
            "SETATTR owner",
            vec![set(owned_by(12))],
            [Perm, Perm, Perm, Done, Perm],
        ),
        ("SETATTR same owner", vec![set(owned_by(OWNER))], owners),
        (
            "SETATTR group of others",
            vec![set(of_group(33))],
            [Perm, Perm, Perm, Done, Perm],
        ),
        ("SETATTR own group", vec![set(of_group(1))], owners),
        ("SETATTR size", vec![set(sized(3))], writers),
    ]
}

/// The same of a directory with mode 0750 that holds a file.
fn on_directories() -> Vec<Row> {
    let searchers = [Done, Done, Access, Done, Access];
    let changers = [Done, Access, Access, Done, Access];
    let new = |name: &str| {
        let how = OpenFlag4::Create(CreateHow4::Guarded(mode(0o600)));
        vec![open("opener", share::ACCESS_BOTH, name, how)]
    };
    let with_saved = |operation| vec![savefh(), operation];
    let list = readdir(nfs4::ReaddirArgs {
        cookie: 0,
        cookieverf: Verifier4([0; 8]),
        dircount: 1000,
        maxcount: 4000,
        attr_request: Bitmap4::default(),
    });
    vec![
        ("LOOKUP", vec![lookup("file")], searchers),
        ("SECINFO", vec![secinfo("file")], searchers),
        ("READDIR", vec![list], searchers),
        (
            "CREATE",
            vec![create(CreateType4::Dir, "made", mode(0o755))],
            changers,
        ),
        (
            "CREATE of a device",
            vec![create(
                CreateType4::Chr(nfs4::Specdata4 {
                    specdata1: 1,
                    specdata2: 3,
                }),
                "device",
                mode(0o666),
            )],
            [Perm, Access, Access, Done, Access],
        ),
        ("OPEN of a new file", new("new"), changers),
        ("REMOVE", vec![remove("file")], changers),
        ("RENAME", with_saved(rename("file", "other")), changers),
    ]
}

#[tokio::test]
async fn mode_bits_decide_what_has_no_open() {
    let world = World::new().await;
    for (index, (caller, client)) in world.callers.iter().enumerate() {
        for (what, ops, answers) in on_files() {
            let file = world.file(0o640).await;
            let told = client.status_on(&file, ops).await;
            assert_eq!(told, answers[index], "{what} by {caller}");
        }
        for (what, ops, answers) in on_directories() {
            let (directory, _) = world.directory(0o750).await;
            let told = client.status_on(&directory, ops).await;
            assert_eq!(told, answers[index], "{what} by {caller}");
        }
        // LINK changes the directory alone.
        let (directory, _) = world.directory(0o750).await;
        let file = world.file(0o640).await;
        let ops = [savefh(), putfh(&directory), link("second")];
        let told = client.status_on(&file, ops).await;
        let answers = [Done, Access, Access, Done, Access];
        assert_eq!(told, answers[index], "LINK by {caller}");
    }
}

/// A sticky directory keeps the owner's files from those who may change it.
#[tokio::test]
async fn sticky_directories_keep_what_is_others() {
    let world = World::new().await;
    for ((caller, client), expected) in (world.callers.iter()).zip([Done, Perm, Perm, Done, Perm]) {
        for ops in [
            vec![remove("file")],
            vec![savefh(), rename("file", "other")],
        ] {
            let (directory, _) = world.directory(0o1777).await;
            let told = client.status_on(&directory, ops).await;
            assert_eq!(told, expected, "by {caller}");
        }
    }
}

/// What is done with a stateid, and whether it is a kind of reading.
fn with_stateid(stateid: Stateid4) -> Vec<(&'static str, ArgOp4, bool)> {
    let data = Bytes::from_static(b"data");
    let seek = ArgOp4::Seek(SeekArgs {
        stateid,
        offset: 0,
        what: DataContent4::Hole,
    });
    let allocate = ArgOp4::Allocate(AllocateArgs {
        stateid,
        offset: 0,
        length: 100,
    });
    let deallocate = ArgOp4::Deallocate(DeallocateArgs {
        stateid,
        offset: 0,
        length: 100,
    });
    vec![
        (
            "WRITE",
            write(stateid, 0, StableHow4::FileSync, data),
            false,
        ),
        ("READ", read(stateid, 0, 10), true),
        ("SEEK", seek, true),
        ("ALLOCATE", allocate, false),
        ("DEALLOCATE", deallocate, false),
        ("SETATTR size", setattr(stateid, sized(5)), false),
    ]
}

/// Does everything with a stateid: reading is answered so, writing so.
async fn check(
    what: &str,
    client: &Client,
    file: &NfsFh4,
    stateid: Stateid4,
    (reading, writing): (NfsStat4, NfsStat4),
) {
    for (operation, ask, reads) in with_stateid(stateid) {
        let expected = if reads { reading } else { writing };
        let told = client.status_on(file, [ask]).await;
        assert_eq!(told, expected, "{operation} with {what}");
    }
}

async fn opened(client: &Client, file: &NfsFh4, owner: &str, access: u32) -> Stateid4 {
    let open = ArgOp4::Open(open_args(owner, access));
    last!(client.on(file, [open]).await, Open).stateid
}

#[tokio::test]
async fn an_open_decides_about_what_it_was_made_for() {
    let world = World::new().await;
    let [(_, owner), (_, member), (_, other), ..] = &world.callers;
    let file = world.file(0o640).await;
    let both = opened(owner, &file, "both", share::ACCESS_BOTH).await;
    let data = Bytes::from_static(b"data");
    let fill = write(both, 0, StableHow4::FileSync, data);
    owner.on(&file, [fill]).await.ok();
    check("one's own open", owner, &file, both, (Done, Done)).await;
    let reading = opened(member, &file, "reader", share::ACCESS_READ).await;
    check("an open to read", member, &file, reading, (Done, OpenMode)).await;
    // The client decides which of its users use an open, as it does with descriptors that are handed on.
    check("another user's open", other, &file, both, (Done, Done)).await;
    check(
        "another user's open to read",
        other,
        &file,
        reading,
        (Done, OpenMode),
    )
    .await;
    // An open stays good when the mode changes.
    owner.on(&file, [set(mode(0o000))]).await.ok();
    check(
        "an open of a file nobody may use",
        owner,
        &file,
        both,
        (Done, Done),
    )
    .await;
    // And does nothing for others.
    let elsewhere = &world.stranger;
    check(
        "another client's",
        elsewhere,
        &file,
        both,
        (BadStateid, BadStateid),
    )
    .await;
    let second = world.file(0o640).await;
    check(
        "that of another file",
        owner,
        &second,
        both,
        (BadStateid, BadStateid),
    )
    .await;
    owner.on(&file, [close(both)]).await.ok();
    check(
        "one that was closed",
        owner,
        &file,
        both,
        (BadStateid, BadStateid),
    )
    .await;
}

#[tokio::test]
async fn an_open_to_write_reads_for_those_who_could_read_anyway() {
    let world = World::new().await;
    let [
        (_, owner),
        (_, member),
        (_, other),
        (_, root),
        (_, squashed),
    ] = &world.callers;
    let file = world.file(0o622).await;
    for (client, reading) in [
        (owner, Done),
        (member, OpenMode),
        (other, OpenMode),
        (root, Done),
        (squashed, OpenMode),
    ] {
        let stateid = opened(client, &file, "writer", share::ACCESS_WRITE).await;
        check("an open to write", client, &file, stateid, (reading, Done)).await;
    }
}

#[tokio::test]
async fn without_an_open_mode_bits_and_denials_decide() {
    let world = World::new().await;
    let answers = [
        (Done, Done),
        (Done, Access),
        (Access, Access),
        (Done, Done),
        (Access, Access),
    ];
    for stateid in [Stateid4::ANONYMOUS, Stateid4::READ_BYPASS] {
        for ((caller, client), expected) in world.callers.iter().zip(answers) {
            let file = world.file(0o640).await;
            check(caller, client, &file, stateid, expected).await;
        }
    }
    // What others deny is denied to the superuser as well.
    let (_, root) = &world.callers[3];
    let file = world.file(0o640).await;
    let denying = nfs4::OpenArgs {
        share_deny: share::DENY_BOTH,
        ..open_args("denier", share::ACCESS_BOTH)
    };
    world.stranger.on(&file, [ArgOp4::Open(denying)]).await.ok();
    let denied = (NfsStat4::Locked, NfsStat4::Locked);
    check("what is denied", root, &file, Stateid4::ANONYMOUS, denied).await;
}

#[tokio::test]
async fn locks_and_opens_are_changed_by_their_client_alone() {
    let world = World::new().await;
    let (_, owner) = &world.callers[0];
    let file = world.file(0o640).await;
    let both = opened(owner, &file, "both", share::ACCESS_BOTH).await;
    let reading = opened(owner, &file, "reader", share::ACCESS_READ).await;
    let lock = |stateid| ArgOp4::Lock(first_lock(stateid, "locker", 0, 10));
    assert_eq!(owner.status_on(&file, [lock(reading)]).await, OpenMode);
    let locked = owner
        .lock_on(&file, first_lock(both, "locker", 0, 10))
        .await;
    for ask in [
        lock(both),
        ArgOp4::Lock(next_lock(locked, 20, 10)),
        locku(locked, 0, 10),
        open_downgrade(both, share::ACCESS_READ, share::DENY_NONE),
        close(both),
        free_stateid(locked),
    ] {
        let told = world.stranger.status_on(&file, [ask.clone()]).await;
        assert_eq!(told, BadStateid, "{ask:?}");
    }
    let probe = lockt("another", NfsLockType4::Write, 0, 10);
    assert_eq!(
        world.stranger.status_on(&file, [probe]).await,
        NfsStat4::Denied
    );
    owner.on(&file, [locku(locked, 0, 10)]).await.ok();
    owner.on(&file, [close(both)]).await.ok();
}

/// Every other thing that a client may send as a stateid.
#[tokio::test]
async fn stateids_of_every_kind_are_told_apart() {
    let world = World::new().await;
    let [(_, owner), _, (_, other), ..] = &world.callers;
    let file = world.file(0o640).await;
    let first = opened(owner, &file, "both", share::ACCESS_BOTH).await;
    let fill = write(first, 0, StableHow4::FileSync, Bytes::from_static(b"data"));
    owner.on(&file, [fill]).await.ok();
    let second = opened(owner, &file, "both", share::ACCESS_READ).await;
    let numbered = |stateid: Stateid4, seqid| Stateid4 { seqid, ..stateid };
    let not_given_out = numbered(second, second.seqid + 1);
    let mut of_another_start = second;
    of_another_start.other[3] ^= 1;
    let made_up = numbered(Stateid4::ANONYMOUS, 7);
    let all = (Done, Done);
    let bad = (BadStateid, BadStateid);
    for (what, stateid, expected) in [
        ("the latest", second, all),
        ("the latest without its number", numbered(first, 0), all),
        ("an older one", first, (OldStateid, OldStateid)),
        ("one that was not given out yet", not_given_out, bad),
        ("one of another start of the server", of_another_start, bad),
        (
            "the current one where there is none",
            Stateid4::CURRENT,
            bad,
        ),
        ("the one that is never good", Stateid4::INVALID, bad),
        ("one that is made up", made_up, bad),
    ] {
        check(what, owner, &file, stateid, expected).await;
    }
    for (operation, ask, reads) in with_stateid(Stateid4::CURRENT) {
        let open = open_file(if reads {
            share::ACCESS_READ
        } else {
            share::ACCESS_BOTH
        });
        let told = owner.status_on(&file, [open, ask]).await;
        assert_eq!(told, Done, "{operation} with the one of the OPEN before");
    }
    let open = numbered(first, 0);
    let lock = owner
        .lock_on(&file, first_lock(open, "locker", 0, 10))
        .await;
    check("a lock", owner, &file, lock, all).await;
    check("another user's lock", other, &file, lock, all).await;
    check("another client's lock", &world.stranger, &file, lock, bad).await;
    let elsewhere = world.file(0o640).await;
    check("a lock of another file", owner, &elsewhere, lock, bad).await;
    let downgrade = open_downgrade(open, share::ACCESS_READ, share::DENY_NONE);
    owner.on(&file, [downgrade]).await.ok();
    let read_only = (Done, OpenMode);
    check("an open that was downgraded", owner, &file, open, read_only).await;
    check("a lock under it", owner, &file, lock, read_only).await;
    owner.on(&file, [locku(lock, 0, 10)]).await.ok();
    check(
        "a lock in an older version",
        owner,
        &file,
        lock,
        (OldStateid, OldStateid),
    )
    .await;
    let unlocked = numbered(lock, 0);
    owner.on(&file, [free_stateid(unlocked)]).await.ok();
    check("a lock that was freed", owner, &file, unlocked, bad).await;
}

/// A lock under an open to write reads for those who could read anyway, as the open does.
#[tokio::test]
async fn a_lock_is_worth_what_its_open_is() {
    let world = World::new().await;
    let [(_, owner), (_, member), ..] = &world.callers;
    let file = world.file(0o622).await;
    for (client, reading) in [(owner, Done), (member, OpenMode)] {
        let open = opened(client, &file, "writer", share::ACCESS_WRITE).await;
        let lock = client
            .lock_on(&file, first_lock(open, "locker", 0, 10))
            .await;
        check("a lock to write", client, &file, lock, (reading, Done)).await;
        client.on(&file, [locku(lock, 0, 10)]).await.ok();
    }
}

/// On Linux set-id bits go when somebody writes who is neither the superuser nor, without execution by the group, a member.
#[tokio::test]
async fn set_id_bits_go_when_others_write() {
    let world = World::new().await;
    let [(_, owner), (_, member), (_, other), (_, root), ..] = &world.callers;
    for (before, client, after) in [
        (0o6777, root, 0o6777),
        (0o6777, member, 0o777),
        (0o2666, member, 0o2666),
        (0o2666, other, 0o666),
        // The owner is no member of the group.
        (0o2666, owner, 0o666),
        (0o4666, other, 0o666),
    ] {
        for (operation, _, reads) in with_stateid(Stateid4::ANONYMOUS) {
            let file = world.file(before).await;
            let stateid = opened(client, &file, "opener", share::ACCESS_BOTH).await;
            let mut asked = with_stateid(stateid).into_iter();
            let (_, ask, _) = asked.find(|(name, ..)| *name == operation).unwrap();
            client.on(&file, [ask]).await.ok();
            let wanted = getattr(Bitmap4::of(&[Attr::Mode]));
            let found = last!(client.on(&file, [wanted]).await, Getattr);
            let mode = Attributes4::decode(&found.obj_attributes).unwrap().mode;
            let expected = if reads { before } else { after };
            assert_eq!(mode, Some(expected), "{operation} of {before:o}");
        }
    }
}
