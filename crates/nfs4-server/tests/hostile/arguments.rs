//! Operations with arguments that a seed chooses: some are right, some are nearly right, and some make no sense.

use fastrand::Rng;
use nfs4::attributes::{ModeUmask4, Settime4};
use nfs4::*;
use xdr::{Bytes, Reader, Writer};

use super::CLIENTS;
use crate::fixture::encoded;
use crate::fixture::operations::*;
use crate::fixture::sessions::*;
use crate::fixture::state::*;

const OWNERS: [&str; 3] = ["one", "another", "third"];
const OFFSETS: [u64; 12] = [
    0,
    1,
    10,
    4095,
    4096,
    5000,
    1 << 40,
    (1 << 63) - 4096,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];
const LENGTHS: [u64; 6] = [0, 1, 5, 5000, (1 << 63) - 1, u64::MAX];
const COUNTS: [u32; 7] = [0, 1, 15, 300, 8192, 1 << 20, u32::MAX];
const COOKIES: [u64; 7] = [0, 1, 2, 3, 4, 1 << 63, u64::MAX];

pub fn of<T: Clone>(random: &mut Rng, all: &[T]) -> T {
    all[random.usize(..all.len())].clone()
}

pub fn one_in(random: &mut Rng, count: usize) -> bool {
    random.usize(..count) == 0
}

/// What clients have been told, which each of them uses.
pub struct Seen {
    pub stateids: Vec<Stateid4>,
    pub handles: Vec<NfsFh4>,
    pub sessions: Vec<SessionId4>,
    pub ids: Vec<u64>,
}

/// Of each at most this many are remembered.
const REMEMBERED: usize = 64;

impl Seen {
    pub fn learn(&mut self, reply: &CompoundRes) {
        for result in &reply.results {
            match result {
                ResOp4::Open(Ok(opened)) => remember(&mut self.stateids, opened.stateid),
                ResOp4::OpenDowngrade(Ok(left)) => remember(&mut self.stateids, left.open_stateid),
                ResOp4::Lock(LockRes::Ok(lock)) => remember(&mut self.stateids, lock.lock_stateid),
                ResOp4::Getfh(Ok(found)) => remember(&mut self.handles, found.object.clone()),
                ResOp4::CreateSession(Ok(made)) => remember(&mut self.sessions, made.sessionid),
                ResOp4::ExchangeId(Ok(known)) => remember(&mut self.ids, known.clientid),
                _ => {}
            }
        }
    }

    /// One that some client was told, often the latest, at times with another number or other bytes.
    fn stateid(&self, random: &mut Rng) -> Stateid4 {
        let latest = self.stateids.len().saturating_sub(4);
        let from = if one_in(random, 3) { 0 } else { latest };
        let mut stateid = of(random, &self.stateids[from..]);
        match random.usize(..10) {
            0 => stateid.seqid = of(random, &[1, 2, 3, u32::MAX]),
            1 => stateid.other[random.usize(..12)] ^= 1,
            2..6 => stateid.seqid = 0,
            _ => {}
        }
        stateid
    }

    fn handle(&self, random: &mut Rng) -> NfsFh4 {
        let mut handle = of(random, &self.handles).0.to_vec();
        if one_in(random, 12) && !handle.is_empty() {
            let at = random.usize(..handle.len());
            handle[at] ^= 1 << random.usize(..8);
        }
        if one_in(random, 30) {
            handle.truncate(random.usize(..=handle.len()));
        }
        NfsFh4(handle.into())
    }
}

/// Appends what is new, and forgets what came early. The first ones stay: they are what is special.
fn remember<T: PartialEq>(all: &mut Vec<T>, new: T) {
    const STAY: usize = 4;
    if !all.contains(&new) {
        all.push(new);
    }
    if all.len() > REMEMBERED {
        all.remove(STAY);
    }
}

fn bytes(random: &mut Rng, longest: usize) -> Bytes {
    let length = random.usize(..=longest);
    (0..length).map(|_| random.u8(..)).collect()
}

fn name(random: &mut Rng) -> Component4 {
    let known: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
    let odd: [&[u8]; 10] = [
        b"",
        b".",
        b"..",
        b"a/b",
        b"nul\0",
        b"\x1b[2J\n",
        b"\xff\xfe",
        b"user.a",
        &[b'n'; 255],
        &[b'n'; 256],
    ];
    let name = match one_in(random, 5) {
        true => of(random, &odd),
        false => of(random, &known),
    };
    Component4(Bytes::copy_from_slice(name))
}

fn bitmap(random: &mut Rng) -> Bitmap4 {
    if !one_in(random, 3) {
        return Bitmap4::of(&[of(random, Attr::ALL), of(random, Attr::ALL)]);
    }
    // Of numbers that are no attributes, too.
    let mut words = Writer::new();
    words.u32(2);
    words.u32(random.u32(..));
    words.u32(random.u32(..));
    let words = words.finish().into_contiguous();
    Reader::new(words).read().expect("it is a bitmap")
}

fn verifier(random: &mut Rng) -> Verifier4 {
    Verifier4([random.u8(..2); 8])
}

fn time(random: &mut Rng) -> Nfstime4 {
    Nfstime4 {
        seconds: of(
            random,
            &[
                0,
                -1,
                1 << 31,
                1 << 34,
                1 << 40,
                -(1 << 40),
                i64::MAX,
                i64::MIN,
            ],
        ),
        nseconds: of(random, &[0, 1, 999_999_999, 1_000_000_000, u32::MAX]),
    }
}

fn set_time(random: &mut Rng) -> Settime4 {
    match one_in(random, 3) {
        true => Settime4::ServerTime,
        false => Settime4::ClientTime(time(random)),
    }
}

/// Attributes to set or to compare.
fn attributes(random: &mut Rng) -> Fattr4 {
    if one_in(random, 8) {
        return Fattr4 {
            attrmask: bitmap(random),
            attr_vals: bytes(random, 40),
        };
    }
    let mut values = Attributes4::default();
    for _ in 0..=random.usize(..2) {
        match random.usize(..9) {
            0 => values.size = Some(of(random, &OFFSETS)),
            1 => values.size = Some(0),
            2 => values.mode = Some(of(random, &[0o600, 0o644, 0, 0o7777, 0o10_000, u32::MAX])),
            3 => {
                let owner = of(
                    random,
                    &["0", "1000", "root", "x@y", "", "4294967296", "-1"],
                );
                values.owner = Some(owner.into());
            }
            4 => values.owner_group = Some(of(random, &["0", "1000", "nobody@", "\0"]).into()),
            5 => values.time_access_set = Some(set_time(random)),
            6 => values.time_modify_set = Some(set_time(random)),
            7 => values.time_create = Some(time(random)),
            _ => {
                let (mode, umask) = (0o666, of(random, &[0o022, 0o1000]));
                values.mode_umask = Some(ModeUmask4 { mode, umask });
            }
        }
    }
    encoded(&values)
}

/// One operation, any of those that there are.
pub fn operation(seen: &Seen, random: &mut Rng) -> ArgOp4 {
    match random.usize(..28) {
        0..6 => opening(random),
        6..10 => locking(seen, random),
        10..13 => ending(seen, random),
        13..17 => on_data(seen, random),
        17..21 => on_names(random),
        21..23 => on_objects(seen, random),
        23..25 => on_xattrs(random),
        25 => leading(seen, random),
        26 => on_clients(seen, random),
        _ => seldom(seen, random),
    }
}

fn opening(random: &mut Rng) -> ArgOp4 {
    let how = match random.usize(..4) {
        0 => CreateHow4::Unchecked(attributes(random)),
        1 => CreateHow4::Guarded(attributes(random)),
        2 => CreateHow4::Exclusive(verifier(random)),
        _ => CreateHow4::Exclusive41(CreateVerfAttr {
            verf: verifier(random),
            attrs: attributes(random),
        }),
    };
    let none = OpenDelegationType4::None;
    let (claim, openhow) = match random.usize(..12) {
        0 | 1 => (OpenClaim4::Fh, OpenFlag4::NoCreate),
        2 | 3 => (OpenClaim4::Previous(none), OpenFlag4::NoCreate),
        4 | 5 => (OpenClaim4::Null(name(random)), OpenFlag4::NoCreate),
        6 => (OpenClaim4::Fh, OpenFlag4::Create(how)),
        7 => (OpenClaim4::DelegPrevFh, OpenFlag4::NoCreate),
        8 => (OpenClaim4::DelegatePrev(name(random)), OpenFlag4::NoCreate),
        _ => (OpenClaim4::Null(name(random)), OpenFlag4::Create(how)),
    };
    ArgOp4::Open(OpenArgs {
        share_deny: of(
            random,
            &[0, 0, 0, 0, share::DENY_WRITE, share::DENY_BOTH, 7],
        ),
        openhow,
        claim,
        ..open_args(
            of(random, &OWNERS),
            of(random, &[1, 2, 3, 3, 3, 0, u32::MAX]),
        )
    })
}

fn locking(seen: &Seen, random: &mut Rng) -> ArgOp4 {
    let (offset, length) = (of(random, &OFFSETS), of(random, &LENGTHS));
    let locktype = of(random, NfsLockType4::ALL);
    let stateid = seen.stateid(random);
    match random.usize(..6) {
        0 => lockt(of(random, &OWNERS), locktype, offset, length),
        1 => locku(stateid, offset, length),
        which => {
            let lock = match which {
                2 | 3 => first_lock(stateid, of(random, &OWNERS), offset, length),
                _ => next_lock(stateid, offset, length),
            };
            ArgOp4::Lock(LockArgs {
                reclaim: one_in(random, 4),
                locktype,
                ..lock
            })
        }
    }
}

fn ending(seen: &Seen, random: &mut Rng) -> ArgOp4 {
    let stateid = seen.stateid(random);
    match random.usize(..6) {
        0..2 => close(stateid),
        2 => open_downgrade(stateid, of(random, &[0, 1, 2, 3]), of(random, &[0, 1, 7])),
        3 => free_stateid(stateid),
        4 => ArgOp4::Delegreturn(DelegreturnArgs { stateid }),
        _ => test_stateid(&[stateid, seen.stateid(random)]),
    }
}

fn on_data(seen: &Seen, random: &mut Rng) -> ArgOp4 {
    let (offset, length) = (of(random, &OFFSETS), of(random, &LENGTHS));
    let (stateid, count) = (seen.stateid(random), of(random, &COUNTS));
    match random.usize(..11) {
        0..2 => read(stateid, offset, count),
        2..5 => {
            let stable = of(random, StableHow4::ALL);
            write(stateid, offset, stable, bytes(random, 300))
        }
        5 => commit(offset, count),
        6 => ArgOp4::Allocate(AllocateArgs {
            stateid,
            offset,
            // A disk has no space for more.
            length: length.min(5000),
        }),
        7 => ArgOp4::Deallocate(DeallocateArgs {
            stateid,
            offset,
            length,
        }),
        8 => ArgOp4::Seek(SeekArgs {
            stateid,
            offset,
            what: of(random, DataContent4::ALL),
        }),
        9 => ArgOp4::IoAdvise(IoAdviseArgs {
            stateid,
            offset,
            count: length,
            hints: bitmap(random),
        }),
        _ => ArgOp4::Clone(CloneArgs {
            src_stateid: stateid,
            dst_stateid: seen.stateid(random),
            src_offset: offset,
            dst_offset: offset,
            count: length,
        }),
    }
}

fn on_names(random: &mut Rng) -> ArgOp4 {
    let device = || Specdata4 {
        specdata1: u32::MAX,
        specdata2: 1,
    };
    match random.usize(..7) {
        0 => remove(name(random)),
        1 => rename(name(random), name(random)),
        2 => link(name(random)),
        3 => secinfo(name(random)),
        4 => ArgOp4::Readdir(ReaddirArgs {
            cookie: of(random, &COOKIES),
            cookieverf: Verifier4([random.u8(..2) / 2; 8]),
            dircount: of(random, &COUNTS),
            maxcount: of(random, &COUNTS),
            attr_request: bitmap(random),
        }),
        _ => {
            let kind = match random.usize(..8) {
                0 => CreateType4::Reg,
                1 => CreateType4::Blk(device()),
                2 => CreateType4::Lnk(bytes(random, 30)),
                3 => CreateType4::Lnk(Bytes::from(vec![b'x'; 4096])),
                4 => CreateType4::Fifo,
                5 => CreateType4::NamedAttr,
                _ => CreateType4::Dir,
            };
            ArgOp4::Create(CreateArgs {
                objtype: kind,
                objname: name(random),
                createattrs: attributes(random),
            })
        }
    }
}

fn on_objects(seen: &Seen, random: &mut Rng) -> ArgOp4 {
    match random.usize(..6) {
        0 => access(random.u32(..)),
        1 => getattr(bitmap(random)),
        2 => verify(attributes(random)),
        3 => nverify(attributes(random)),
        _ => setattr(seen.stateid(random), attributes(random)),
    }
}

fn on_xattrs(random: &mut Rng) -> ArgOp4 {
    match random.usize(..5) {
        0 => getxattr(name(random)),
        1 => listxattrs(of(random, &COOKIES), of(random, &COUNTS)),
        2 => removexattr(name(random)),
        _ => {
            let option = of(random, SetxattrOption4::ALL);
            setxattr(option, name(random), &bytes(random, 200))
        }
    }
}

fn leading(seen: &Seen, random: &mut Rng) -> ArgOp4 {
    match random.usize(..9) {
        0 => lookup(name(random)),
        1 => lookupp(),
        2 => savefh(),
        3 => restorefh(),
        4 => putrootfh(),
        5 => ArgOp4::Putpubfh,
        6 => readlink(),
        7 => secinfo_no_name(of(random, SecinfoStyle4::ALL)),
        _ => putfh(&seen.handle(random)),
    }
}

/// What makes and ends clients and sessions, of others as well.
fn on_clients(seen: &Seen, random: &mut Rng) -> ArgOp4 {
    let session = of(random, &seen.sessions);
    let sec_parms = match one_in(random, 2) {
        true => Vec::new(),
        false => vec![CallbackSecParms4::None],
    };
    match random.usize(..8) {
        0 | 1 => ArgOp4::ReclaimComplete(ReclaimCompleteArgs {
            one_fs: one_in(random, 4),
        }),
        2 => {
            let number = random.usize(..CLIENTS);
            let mut client = introduction(&format!("client {number}"));
            client.clientowner.verifier = Verifier4([random.u8(..3); 8]);
            client.flags = of(random, &[0, 0, exchgid::UPD_CONFIRMED_REC_A, u32::MAX]);
            exchange_id(client)
        }
        3 => {
            let mut request = session_request(of(random, &seen.ids), random.u32(..5));
            let channel = &mut request.fore_chan_attrs;
            channel.maxrequests = of(random, &[0, 1, 8, u32::MAX]);
            channel.maxresponsesize = of(random, &[0, 255, 256, 8192, u32::MAX]);
            request.flags = of(random, &[0, 0, 7, 8]);
            request.sec_parms = sec_parms;
            create_session(request)
        }
        4 => destroy_session(session),
        5 => destroy_clientid(of(random, &seen.ids)),
        6 => bind(session, of(random, ChannelDirFromClient4::ALL)),
        _ => ArgOp4::BackchannelCtl(BackchannelCtlArgs {
            cb_program: random.u32(..),
            sec_parms,
        }),
    }
}

/// What this server does not do, and what is no operation.
fn seldom(seen: &Seen, random: &mut Rng) -> ArgOp4 {
    let (offset, length) = (of(random, &OFFSETS), of(random, &LENGTHS));
    let (stateid, iomode) = (seen.stateid(random), of(random, LayoutIomode4::ALL));
    match random.usize(..11) {
        0 => openattr(),
        1 => ArgOp4::Delegpurge(DelegpurgeArgs {
            clientid: of(random, &seen.ids),
        }),
        2 => ArgOp4::WantDelegation(WantDelegationArgs {
            want: random.u32(..),
            claim: DelegClaim4::Fh,
        }),
        3 => ArgOp4::SetSsv(SetSsvArgs {
            ssv: bytes(random, 9),
            digest: bytes(random, 9),
        }),
        4 => ArgOp4::Layoutget(LayoutgetArgs {
            signal_layout_avail: false,
            layout_type: random.u32(..6),
            iomode,
            offset,
            length,
            minlength: length,
            stateid,
            maxcount: of(random, &COUNTS),
        }),
        5 => ArgOp4::Layoutreturn(LayoutreturnArgs {
            reclaim: false,
            layout_type: random.u32(..6),
            iomode,
            which: Layoutreturn4::All,
        }),
        6 => ArgOp4::Getdeviceinfo(GetdeviceinfoArgs {
            device_id: Deviceid4([random.u8(..); 16]),
            layout_type: random.u32(..6),
            maxcount: of(random, &COUNTS),
            notify_types: bitmap(random),
        }),
        7 => ArgOp4::Getdevicelist(GetdevicelistArgs {
            layout_type: random.u32(..6),
            maxdevices: of(random, &COUNTS),
            cookie: of(random, &COOKIES),
            cookieverf: verifier(random),
        }),
        8 => ArgOp4::Sequence(sequence(of(random, &seen.sessions), random.u32(..))),
        9 => match of(random, Opnum::ALL) {
            // Written without its arguments, it would be read with the next operations as its own.
            number if has_arguments_here(number) => ArgOp4::Illegal(random.u32(..)),
            number => ArgOp4::Unsupported(number),
        },
        _ => ArgOp4::Illegal(random.u32(..)),
    }
}

/// Whether the server reads arguments of this operation, as it does of all that it supports.
fn has_arguments_here(number: Opnum) -> bool {
    let mut written = Writer::new();
    written.write(&ArgOp4::Unsupported(number));
    let read = ArgOp4::decode_op(&mut Reader::new(written.into_bytes()));
    !matches!(read, Ok(ArgOp4::Unsupported(_)))
}
