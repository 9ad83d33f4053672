//! The figures of the main paper, repeated one by one, with the exact commands where they matter.

use crate::set::*;
use control::*;

/// Tree of Figures 3 and 4: root 1 with directory a (2); in it b (3) and c (4); f1 (5) and d1 (6) in b,
/// f2 (7) and d2 (8) in c.
fn figure_tree() -> Map {
    Map::of(&[(2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (8, 4)])
}

fn shallow_only() -> Settings {
    let mut settings = Settings::default();
    settings.strategies.deep_control = false;
    settings.strategies.upgrade = false;
    settings
}

fn send(to: u16, message: Message, after: u64) -> Command {
    Command::Send {
        to: slot(to),
        envelope: Envelope {
            epoch: Epoch(1),
            message,
        },
        after: Mark(after),
    }
}

fn deep_proposal(holder: u16, object: u64, ancestors: &[u64]) -> Proposal {
    Proposal {
        name: name(holder, 1),
        claims: vec![Claim {
            object: id(object),
            depth: Depth::Deep,
            ancestors: ancestors.iter().map(|raw| id(*raw)).collect(),
        }],
        downgradable: true,
        behind: Vec::new(),
    }
}

fn deliver(core: &mut ControlCore, tree: &Map, from: u16, message: Message) -> Vec<Command> {
    let epoch = Epoch(1);
    core.handle_message(Moment(0), tree, slot(from), Envelope { epoch, message });
    commands(core)
}

#[test]
fn figure_1_without_competition_takes_one_message_delay() {
    let tree = figure_tree();
    let mut proposer = core(0, 3, Settings::default());
    let mut acceptor = core(1, 3, Settings::default());
    let proposal = deep_proposal(0, 3, &[1, 2]);
    let propose = Message::Propose {
        proposal: proposal.clone(),
        replaces: None,
        floor: 1,
    };

    proposer
        .handle_operation(Moment(0), &tree, OperationId(7), (&create(3), Asker::Own))
        .unwrap();
    assert_eq!(
        commands(&mut proposer),
        [
            send(1, propose.clone(), 0),
            send(2, propose.clone(), 0),
            Command::Persist(Record::Granted(proposal.clone())),
        ]
    );

    let acknowledge = Message::Acknowledge { name: name(0, 1) };
    assert_eq!(
        deliver(&mut acceptor, &tree, 0, propose),
        [
            Command::Persist(Record::Granted(proposal)),
            send(0, acknowledge.clone(), 1),
        ],
        "the acknowledgement waits until the grant is durable"
    );

    assert_eq!(
        deliver(&mut proposer, &tree, 1, acknowledge.clone()),
        [
            Command::Admit {
                operation: OperationId(7),
                under: vec![name(0, 1)],
                after: Mark(1),
            },
            Command::ArmTimer {
                at: Moment(1_000_000)
            },
        ],
        "a majority suffices"
    );
    assert_eq!(deliver(&mut proposer, &tree, 2, acknowledge), []);
}

#[test]
fn figure_1_losers_withdraw_and_hand_their_operation_to_the_largest() {
    let mut set = Set::new(3, figure_tree(), Settings::default());
    for replica in 0..3 {
        set.submit(replica, u64::from(replica), write(5));
    }
    set.deliver();
    assert_eq!(set.agreed(), [(2, 5, Depth::Shallow)]);
    for loser in 0..2 {
        let forwarded = Outcome::Forwarded { at: loser, to: 2 };
        assert_eq!(set.outcomes[&u64::from(loser)], forwarded);
    }
    let won = matches!(set.outcomes[&2], Outcome::Admitted { at: 2, .. });
    assert!(won, "the largest identifier proceeds");
}

#[test]
fn figure_2_deep_control_is_refused_while_another_controls_something_below() {
    let mut set = Set::new(3, figure_tree(), Settings::default());
    set.submit(0, 1, write(5));
    set.deliver();
    set.submit(1, 2, create(2));
    set.deliver();
    assert_eq!(
        set.agreed(),
        [(0, 5, Depth::Shallow), (1, 2, Depth::Shallow)],
        "shallow control of the directory beside the file below it"
    );
}

#[test]
fn figure_2_deep_control_covers_what_is_below_and_others_forward() {
    let mut set = Set::new(3, figure_tree(), Settings::default());
    set.submit(0, 1, create(2));
    set.deliver();
    set.submit(0, 2, create(6));
    let covered = Outcome::Admitted {
        at: 0,
        under: vec![name(0, 1)],
    };
    assert_eq!(set.outcomes[&2], covered, "no further election");
    set.submit(1, 3, write(7));
    assert_eq!(set.outcomes[&3], Outcome::Forwarded { at: 1, to: 0 });
}

#[test]
fn figure_3_ancestry_table() {
    let mut set = Set::new(3, figure_tree(), shallow_only());
    set.submit(0, 1, write(5));
    set.submit(0, 2, create(6));
    set.submit(1, 3, write(7));
    set.submit(2, 4, create(8));
    set.deliver();
    // The counters of these controls stand in a test of the table.
    let controls = [(0, 5), (0, 6), (1, 7), (2, 8)];
    let controls = controls.map(|(holder, object)| (holder, object, Depth::Shallow));
    assert_eq!(set.agreed(), controls);
    for core in &set.cores {
        assert!(core.ancestry_is_exact(&set.tree));
    }
}

#[test]
fn figure_3_ancestry_table_follows_moves_links_and_removals() {
    let mut set = Set::new(3, figure_tree(), shallow_only());
    set.submit(0, 1, write(5));
    set.deliver();
    // The directory b moves into c; the announcement keeps counting where the proposer saw the file.
    set.tree.0.insert(id(3), vec![id(4)]);
    let tree = set.tree.clone();
    let core = &mut set.cores[1];
    core.handle_unlinked(Moment(0), &tree, id(3), id(2));
    core.handle_linked(Moment(0), &tree, id(3), id(4));
    assert!(core.ancestry_is_exact(&tree));
    // A second link of f1 in d2, then the first one goes.
    set.tree.0.insert(id(5), vec![id(3), id(8)]);
    let tree = set.tree.clone();
    core.handle_linked(Moment(0), &tree, id(5), id(8));
    assert!(core.ancestry_is_exact(&tree));
    set.tree.0.insert(id(5), vec![id(8)]);
    let tree = set.tree.clone();
    core.handle_unlinked(Moment(0), &tree, id(5), id(3));
    assert!(core.ancestry_is_exact(&tree));
}

/// S0 asks for b, S1 for c, S2 for deep control of a, all at once.
#[test]
fn figure_4_conflicting_requests_s0_s1_s2() {
    let mut set = Set::new(3, figure_tree(), Settings::default());
    set.submit(0, 0, create(3));
    set.submit(1, 1, create(4));
    set.submit(2, 2, create(2));
    set.deliver();
    assert_eq!(
        set.agreed(),
        [
            (0, 3, Depth::Deep),
            (1, 4, Depth::Deep),
            (2, 2, Depth::Shallow),
        ],
        "S0 and S1 succeed; S2 retries with shallow control of a"
    );
    for replica in 0..3 {
        let outcome = &set.outcomes[&u64::from(replica)];
        assert!(matches!(outcome, Outcome::Admitted { at, .. } if *at == replica));
    }
}
