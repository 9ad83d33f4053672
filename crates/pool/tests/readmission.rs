//! A data server, and an older copy of its contents that was seen: what a home asks an administrator, and what it then accepts.

use std::collections::BTreeMap;

use control::Moment;
use pool::home::{Command, Home, HomeSettings, Record, Recovered, Stranger};
use pool::{
    DataServerNumber, HomeNumber, IssueNumber, KeyNumber, KeySource, StoreIdentity, ToDataServer,
    ToHome,
};

const SERVER: DataServerNumber = DataServerNumber(2);

fn home(known: Option<StoreIdentity>) -> Home {
    let keys = (KeyNumber(1), KeySource::new([7; 32]));
    let recovered = Recovered {
        servers: BTreeMap::from([(SERVER, known)]),
        ..Recovered::default()
    };
    let settings = HomeSettings::default();
    Home::new(
        HomeNumber(1),
        IssueNumber(1),
        keys,
        settings,
        Moment(0),
        recovered,
    )
}

/// Whether the data server gets a lease, and which identity is recorded.
fn ask(home: &mut Home, identity: StoreIdentity) -> (bool, Option<StoreIdentity>) {
    let asked = ToHome::LeaseRequest {
        asked: Moment(0),
        identity,
    };
    let (mut leased, mut kept) = (false, None);
    for command in home.handle(Moment(0), SERVER, asked) {
        match command {
            Command::Send { message, .. } => {
                leased |= matches!(message, ToDataServer::Lease { .. })
            }
            Command::Persist(Record::StoreIdentity(_, identity)) => kept = Some(identity),
            _ => {}
        }
    }
    (leased, kept)
}

fn stranger(home: &Home) -> Option<Stranger> {
    home.servers(Moment(0)).pop().unwrap().stranger
}

#[test]
fn an_older_copy_is_never_readmitted_and_the_right_contents_are() {
    let mut home = home(None);
    let of = |reports, run| StoreIdentity {
        store: 5,
        counter: (0..reports).fold(0, |counter, _| StoreIdentity::counted_answer(counter)),
        run,
    };
    let (older, right) = (of(3, 1), of(9, 2));
    assert!(ask(&mut home, right).0);
    assert_eq!(home.readmit(SERVER), None, "nobody refuses it");
    let (leased, kept) = ask(&mut home, older);
    assert!(!leased && stranger(&home) == Some(Stranger::OlderCopy));
    assert_eq!(
        home.readmit(SERVER),
        None,
        "what was written later would be missing"
    );

    // The doubt survives a restart of the home.
    let mut home = self::home(kept);
    let again = StoreIdentity {
        counter: StoreIdentity::counted_start(right.counter),
        run: 3,
        ..right
    };
    assert!(!ask(&mut home, again).0 && stranger(&home) == Some(Stranger::Doubted));
    let commands = home.readmit(SERVER).unwrap();
    assert!(matches!(
        &commands[..],
        [Command::Persist(Record::StoreIdentity(SERVER, _))]
    ));
    assert!(ask(&mut home, again).0 && stranger(&home).is_none());
    assert!(!ask(&mut home, older).0 && stranger(&home) == Some(Stranger::OlderCopy));
    let other = StoreIdentity { store: 6, ..again };
    assert!(!ask(&mut home, other).0);
    assert_eq!(home.readmit(SERVER), None, "an empty disk is no older copy");
}
