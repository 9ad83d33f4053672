//! Files that other servers change, too: how long data servers serve clients, and under which lease (rule 11).

use std::collections::BTreeMap;
use std::time::Duration;

use control::{Moment, OperationId};
use pool::data_server::{self, DataServer, Fenced, NotServed, Shelf};
use pool::home::{Command, FileRow, Holder, Home, HomeSettings, Outcome, Recovered, Request};
use pool::{
    Access, Act, Capability, ContentsId, DataServerNumber, Generation, Handle, HandleKey,
    HandleKeys, HomeNumber, Intent, IntentNumber, IssueNumber, KeyNumber, KeySource, LeaseSettings,
    PlacementNumber, Refused, Report, Rules, StoreIdentity, ToDataServer, ToHome,
};
use vfs::ObjectId;

const SERVER: DataServerNumber = DataServerNumber(2);
const HOME: HomeNumber = HomeNumber(1);
const OPERATION: OperationId = OperationId(7);

/// Nothing was fenced.
struct Untouched;

impl Shelf for Untouched {
    fn fenced(&self, _: ContentsId) -> Option<Fenced> {
        None
    }

    fn report(&self, _: ContentsId) -> Report {
        Report::default()
    }
}

/// A home and a data server. Both clocks show the same time.
struct Pair {
    home: Home,
    server: DataServer,
    row: FileRow,
}

fn at(millis: u64) -> Moment {
    Moment(millis * 1000)
}

impl Pair {
    fn new() -> Pair {
        Pair::with(LeaseSettings::default())
    }

    /// The same with these lease settings at the data server.
    fn with(lease: LeaseSettings) -> Pair {
        let keys = (KeyNumber(1), KeySource::new([7; 32]));
        let settings = HomeSettings {
            shares_files: true,
            ..HomeSettings::default()
        };
        let recovered = Recovered {
            servers: BTreeMap::from([(SERVER, None)]),
            ..Recovered::default()
        };
        let contents = ContentsId {
            object: ObjectId::from_u64(0x0001_0000_0000_0044),
            placement: PlacementNumber(1),
        };
        Pair {
            home: Home::new(HOME, IssueNumber(1), keys, settings, Moment(0), recovered),
            server: DataServer::new(SERVER, lease, Rules::ALL),
            row: FileRow {
                contents,
                generation: Generation::FIRST,
                members: vec![SERVER],
                size: 0,
                unsettled: false,
            },
        }
    }

    /// The data server asks, and is answered at once.
    fn lease(&mut self, now: Moment) {
        let identity = StoreIdentity {
            store: 5,
            counter: 1,
            run: 1,
        };
        let data_server::Command::Send(_, asked) = self.server.ask(now, HOME, identity) else {
            panic!("it asks");
        };
        for command in self.home.handle(now, SERVER, asked) {
            if let Command::Send { message, .. } = command {
                assert!(matches!(message, ToDataServer::Lease { .. }));
                self.server.handle(now, &Untouched, HOME, message);
            }
        }
    }

    fn layout(&mut self, now: Moment, access: Access) -> Outcome {
        let request = Request::Layout(Holder(1), access);
        let commands = self.home.request(now, &self.row, OPERATION, request);
        let answer = commands.into_iter().find_map(|command| match command {
            Command::Answer { outcome, .. } => Some(outcome),
            _ => None,
        });
        answer.unwrap()
    }

    fn read(&mut self, now: Moment, handle: &Handle) -> Result<(), NotServed> {
        let when = (now, now);
        let (ticket, _) = self
            .server
            .begin(when, &Untouched, handle.as_bytes(), Access::Read)?;
        self.server.finish(now, &Untouched, ticket).0
    }
}

#[test]
fn clients_are_served_as_long_as_the_home_may_speak_for_its_files_and_the_home_itself_longer() {
    let mut pair = Pair::new();
    pair.lease(at(0));
    assert_eq!(pair.layout(at(1), Access::Read), Outcome::ThroughHome);
    pair.home.bound_clients(at(1500));
    pair.lease(at(500));
    assert_eq!(
        pair.layout(at(501), Access::ReadWrite),
        Outcome::ThroughHome
    );
    let Outcome::Layout(handles) = pair.layout(at(501), Access::Read) else {
        panic!("there is a layout");
    };
    let handle = &handles[0].1;
    assert_eq!(pair.home.held(), [pair.row.contents.object]);
    let own = pair.home.own_handle(&pair.row, SERVER);
    assert_eq!(pair.read(at(502), handle), Ok(()));
    // A read that has begun is not answered after that time.
    // Clocks may be wrong by more than a tenth.
    let begun = (at(1200), at(1200));
    let (ticket, _) = pair
        .server
        .begin(begun, &Untouched, handle.as_bytes(), Access::Read)
        .unwrap();
    let (answered, _) = pair.server.finish(at(1300), &Untouched, ticket);
    assert_eq!(answered, Err(NotServed::NoLease));
    assert_eq!(pair.read(at(1300), handle), Err(NotServed::NoLease));
    assert_eq!(pair.read(at(1300), &own), Ok(()));
    // The next lease has the new time for clients, which is at most the length of a lease.
    pair.home.bound_clients(Moment(u64::MAX));
    pair.lease(at(2000));
    assert_eq!(pair.read(at(4600), handle), Ok(()));
    assert_eq!(pair.read(at(4700), handle), Err(NotServed::NoLease));
    assert_eq!(pair.read(at(4700), &own), Err(NotServed::NoLease));
}

/// The machine of the data server may stand still, too briefly to be noticed, while the time for clients is much shorter than a lease.
#[test]
fn what_a_data_server_does_not_see_of_time_is_taken_off_a_short_time_for_clients_as_off_a_lease() {
    let unseen = Duration::from_millis(180);
    let lease = LeaseSettings {
        unseen,
        ..LeaseSettings::default()
    };
    let mut pair = Pair::with(lease);
    pair.lease(at(0));
    pair.home.bound_clients(at(1500));
    pair.lease(at(500));
    let Outcome::Layout(handles) = pair.layout(at(501), Access::Read) else {
        panic!("there is a layout");
    };
    let handle = &handles[0].1;
    assert_eq!(pair.read(at(1000), handle), Ok(()));
    // A second, less the drift of both clocks, is over by 1300. The unseen time is subtracted from that.
    assert_eq!(pair.read(at(1150), handle), Err(NotServed::NoLease));
    // Nothing is left of a shorter time.
    pair.home.bound_clients(at(2150));
    pair.lease(at(2000));
    assert_eq!(pair.read(at(2000), handle), Err(NotServed::NoLease));
    let own = pair.home.own_handle(&pair.row, SERVER);
    assert_eq!(pair.read(at(2000 + 2500), &own), Ok(()));
    assert_eq!(
        pair.read(at(2000 + 2520), &own),
        Err(NotServed::NoLease),
        "of a whole lease, too"
    );
}

/// A joined home has a lease like any other home, with its own keys, and only objects with its own number.
#[test]
fn a_home_seals_no_handles_for_contents_of_another_one() {
    let joined = HomeNumber(3);
    let mut server = DataServer::new(SERVER, LeaseSettings::default(), Rules::ALL);
    let identity = StoreIdentity {
        store: 5,
        counter: 1,
        run: 1,
    };
    let data_server::Command::Send(_, asked) = server.ask(at(0), joined, identity) else {
        panic!("it asks");
    };
    let ToHome::LeaseRequest { asked, .. } = asked else {
        panic!("it asks for a lease");
    };
    let key = HandleKey::new(KeyNumber(1), [7; 32]);
    let lease = ToDataServer::Lease {
        asked,
        issue: IssueNumber(1),
        keys: HandleKeys::new(key.clone()),
        clients: Duration::from_secs(1),
    };
    server.handle(at(1), &Untouched, joined, lease);
    let mut shown = |object: u64| {
        let capability = Capability {
            home: joined,
            issue: IssueNumber(1),
            object: ObjectId::from_u64(object),
            placement: PlacementNumber(1),
            generation: Generation::FIRST,
            access: Access::Read,
        };
        let handle = key.seal(&capability, SERVER);
        let begun = server.begin((at(2), at(2)), &Untouched, handle.as_bytes(), Access::Read);
        begun.map(drop)
    };
    assert_eq!(shown(0x0003_0000_0000_0044), Ok(()));
    for other in [0x0001_0000_0000_0044, 0x0002_0000_0000_0044] {
        assert_eq!(shown(other), Err(Refused::OtherHome.into()));
    }
    // It cannot ask for a report about them, or remove them, either.
    let contents = ContentsId {
        object: ObjectId::from_u64(0x0001_0000_0000_0044),
        placement: PlacementNumber(1),
    };
    let look = ToDataServer::Look {
        issue: IssueNumber(1),
        question: 1,
        contents,
        stable: false,
    };
    assert!(server.handle(at(2), &Untouched, joined, look).is_empty());
}

/// Contents that a frequently started home had fenced.
struct FencedOften;

impl Shelf for FencedOften {
    fn fenced(&self, _: ContentsId) -> Option<Fenced> {
        Some(Fenced {
            generation: Generation(3),
            through: IntentNumber(9 << 32),
            removed: false,
        })
    }

    fn report(&self, _: ContentsId) -> Report {
        Report::default()
    }
}

/// The home was given up. The first home, which was started less often, removes what is left. Earlier it was told every time that this was done.
#[test]
fn what_a_lost_home_has_left_is_removed_though_its_intents_had_larger_numbers() {
    let mut server = DataServer::new(SERVER, LeaseSettings::default(), Rules::ALL);
    let mut intent = Intent {
        number: IntentNumber(4 << 32),
        contents: ContentsId {
            object: ObjectId::from_u64(0x0003_0000_0000_0044),
            placement: PlacementNumber(1),
        },
        generation: Generation(4),
        act: Act::Remove,
    };
    let mut take = |intent| {
        let take = ToDataServer::Take(intent, KeyNumber(1));
        server.handle(at(1), &FencedOften, HOME, take)
    };
    let commands = take(intent);
    let [data_server::Command::CarryOut(HOME, carried_out, _)] = &commands[..] else {
        panic!("it is carried out, and not {commands:?}");
    };
    assert_eq!(*carried_out, intent);
    // A cut with such a number may have been carried out before the later writes.
    intent.act = Act::Truncate(0);
    intent.contents.placement = PlacementNumber(2);
    let commands = take(intent);
    assert!(matches!(commands[..], [data_server::Command::Send(..)]));
}
