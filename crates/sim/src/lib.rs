//! Simulation of a replication set: the control cores and leases of production under a virtual clock and
//! network, with a copy of the tree at every replica.
//!
//! One seed decides everything: delays, losses, duplicates, the tree and the work of the clients. After every
//! step each invariant is checked (one per file, in [`invariants`]); a run that only counts messages of large sets ([`Sent`]) may
//! check them only at the end. What must never enter: real time, real
//! threads, and any decision that the cores should make themselves.
//!
//! In half of the runs replicas fail ([`Fault`]): crashes that lose unwritten data, links cut in one direction
//! or both, full disks, clocks that drift and are set, machines that stand still or are suspended. Either an administrator gives a lost replica
//! up, or durability is `majority` and survivors take over. Every replica then has a disk, a clock, a lease and a view; decisions about views
//! stand in for the log that a majority keeps. A restarted replica takes part in no view at first. It begins with what its own log
//! says, and takes part with its new incarnation when that was agreed. At the end everything is mended, and the set
//! has to come to rest.
//!
//! Sequences of changes of the set (`tests/sequences.rs`) also have witnesses, removals, and an administrator who says that a
//! majority is gone for ever.
//!
//! A random run that fails is reduced to a [`Scenario`], which names it.
//!
//! # Known executions that break a literal reading of the papers
//!
//! Each is a test by its number, `counterexample_N_...`. Each test shows that something breaks with the rule switched off
//! ([`control::Rules`], [`Model`], or a switch of the test itself if the rule is not the core's), and that nothing breaks
//! with it; `tests/listed.rs` looks for the tests. The letters stand for files of `tests/`: `c` is `counterexamples.rs`
//! (random runs with a rule switched off), `f` is `failing.rs` (the same with failures), `s` is `scripted.rs`, `l` is
//! `lagging.rs`, `q` is `sequences.rs`, `m` is `membership.rs`, `r` is `reading.rs`, `k` is `locks.rs`; `v` is `views.rs` of the crate `control`.
//! What the model does not have is tested in the crate `replica` with the code that decides there. If two numbers share
//! a row, one rule prevents both, or they are tested in the same way.
//!
//! | number | played in | remarks |
//! |---|---|---|
//! | 1, 7, 8, 18 | f; 1 also v | |
//! | 2, 3, 4, 31, 32, 34, 37 | c | |
//! | 5, 6, 19, 23, 27, 29 | s | |
//! | 9 | v | the acknowledgement that came too early is seen there itself. 400 random runs without the rule broke no invariant, because what was acknowledged too early is taken back when the reports are there |
//! | 10 | m; two members at once in v | |
//! | 11, 30, 35, 36 | l | 11 with an acceptor that knows no object. A witness follows the rows and judges like other replicas (`tests/witness.rs` of `replica`), so it knows more |
//! | 12, 13 | `shipping/tests/counterexamples.rs` of `replica` | a model of the receiver; the sender is the real one |
//! | 14 | `losses/counterexamples.rs` of `replica` | durability by majority and the survivors' verdict are the real ones; either half of the rule switched off loses an answer |
//! | 15, 16, 26 | f | |
//! | 17 | f; bytes in `shipping/tests/counterexamples.rs` of `replica` | |
//! | 20 | r | clients keep entries under the change attribute; random runs show it as well |
//! | 21, 33 | c | |
//! | 22 | l for a repeated forward; `tests/verifier.rs` of `replica` for the write verifier | there a server that answers with its own verifier is the test's |
//! | 24 | l | |
//! | 25 | k | locks that are in every copy, and the lease of clients that stay away; random runs with failures show the first as well. That production does both is seen in `tests/holders.rs` of `replica` |
//! | 28 | f for a full disk that leaves while others stay; `free_space.rs` of `replica` for the reserve | |
//! | 38 | v | needs only three cores and a lost connection; also with an admission before all have heard the reports. Random runs hardly show it, because here a repeated proposal tells the same as a report |
//! | 39 | v for ends and proposals of another epoch; `restart.rs` of `control` for numbers after a restart | an end of an older epoch is an orphan only if it is not said again either |
//! | 40 | `tests/attributed.rs` of `view`, `authorisation/walk.rs` of `replica` | |
//! | 41 | q; the state in `state/tests.rs` of `view`, and `tests/membership.rs` of `replica` | that a decision to remove without a settlement is refused is the real state's affair |
//! | 42 | `majority.rs` of `replica`, and its `tests/membership.rs` | here majorities are those of the view |
//! | 43 | `memory.rs`; `births.rs` and `tests/membership.rs` of `replica` | here what the cores remember is counted, while a member is away for three days, and at the end of every run |
//! | 44 | f; `lease.rs` of `control` | a restarted machine, with a clock that begins again |
//! | 45 | `outbound.rs` and `tests/slow_link.rs` of `replica` | |
//! | 46 | `losses/relay.rs` and `tests/slow_link.rs` of `replica` | |
//! | 47 | `tests/unanswered.rs` of `replica`; `tests/restart.rs` of `meridian` for a single server | the simulation has no clients that repeat a request over a restart |
//! | 48 | `set/tests.rs` of `peer`, `tests/signed_lists.rs` of `replica` | |
//! | 49 | `authorisation/walk.rs` of `replica` | |
//! | 50 | f; `lease.rs` of `control`, `lease_state.rs` of `replica` | in half of the random runs with failures machines stand still, and in half of them they are suspended as well, or their clocks are set |
//! | 51 | f; `tests/shipped_once.rs` of `replica` | here versions are compared, there sums of blocks |
//! | 52 | `restart.rs` of `control` | random runs with failures show it as well, since replicas begin again as in production |
//! | 53 | `restart.rs` of `control`; seeds 22419 and 24105 of `tests/seeds.rs`; `walk/renounced.rs` of `replica` | |
//! | 54 | q; the rule in `settled.rs` of `replica` | |
//! | 55 | q; `tests/recovered.rs` of `replica` | |
//! | 56 | `walk/closed.rs` of `replica` | |
//! | 57 | m; `tests/left_behind.rs` of `replica` | |
//! | 58 | `state/majority.rs` and `membership/losses.rs` of `replica` | here, too, majorities have members of the view alone |
//! | 59 | `walk/half_back.rs` of `replica` | |
//! | 60 | `walk/different_ends.rs` of `replica` | |
//! | 61 | m; `walk/given_up.rs` of `replica` | |
//! | 62 | `walk/given_up.rs` of `replica` | here contents have no parts |
//! | 63 | `tests/slow_link.rs` of `replica` | |
//! | 64 | `walk/supplied.rs` of `replica` | |
//! | 65 | `walk/supplied.rs` of `replica` | here contents have no parts |
//! | 66 | `walk/supplied.rs` and `state/losses/verdict.rs` of `replica` | here contents have no parts |
//! | 67 | `restart.rs` of `control`; scenarios of `tests/seeds.rs` | |
//! | 68 | `walk/given_up.rs` of `replica` | |
//! | 69 | `walk/supplied.rs` of `replica` | here contents have no parts |
//! | 70 | `walk/wishes.rs` of `replica` | here nothing is asked for by name |
//! | 71 | `state/given_way.rs` of `replica` | the same |
//! | 72 | `walk/wishes.rs` of `replica` | the same |
//! | 73 | `walk/left.rs` of `replica` | here a replica that leaves restarts at once |
//! | 74 | `replication/cutting.rs` of `replica` | here streams have no gaps |
//! | 75 | `walk/given_way.rs` of `replica` | here a piece is all of a file |
//! | 76 | `walk/given_up.rs` of `replica` | here the state of views is learned as a whole |
//! | 77 | `walk/given_way.rs` of `replica` | as 75 |
//! | 78 | `walk/given_way.rs` of `replica` | as 75 |
//! | 79 | `walk/supplied.rs` of `replica` | as 75 |
//! | 80 | `walk/supplied.rs` of `replica` | as 75 |
//! | 81 | `state/majority.rs` of `replica` | as 75 |
//! | 82 | `state/majority.rs` of `replica` | here contents come with the update |
//! | 83 | `state/majority.rs` of `replica` | as 75 |
//! | 84 | `state/majority.rs` and `walk/given_way.rs` of `replica` | as 75 |
//! | 85 | `tests/power_loss` of `store` | here what a replica says is stable |
//! | 86, 87 | `state/arrivals.rs` and `state/outbound.rs` of `replica` | |
//! | 88 | `state/arrivals.rs` of `replica` | |
//! | 89 | `shipping/tests` of `replica` | |
//! | 90 | `replication/line.rs` of `replica` | here the messages of a stream are applied as they come |
//! | 91 | `membership/losses/relay.rs` of `replica` | here a copy is taken in one step |
//! | 92 | `driver/lease_state.rs` of `replica` | here a view is in force as soon as leases have run out |
//! | 93 | `state/nonsense.rs` of `replica` | here nobody sends nonsense |
//! | 94 | `walk/unsent.rs` of `replica` | here nobody needs a whole copy while it is outside |
//! | 95 | `walk/unsent.rs` and `views/missed.rs` of `replica` | here a settlement gives up contents at no replica |
//! | 96 | `walk/unsent.rs` of `replica` | here updates come to all survivors at once |
//! | 97 | `tests/rejoining.rs` of `replica` | as 91 |
//! | 98 | `walk/unsent.rs` of `replica` | as 91 |
//! | 99 | `replication/base.rs` of `replica` | as 91 |
//! | 100 | `walk/unsent.rs` of `replica` | here all say what they owe at once |
//! | 101 | `walk/unsent.rs` of `replica` | as 91 |
//! | 102 | `losses/level.rs` of `replica` | as 91 |
//! | 103 | `replication/base.rs` of `replica` | as 91 |
//! | 104 | `walk/unsent.rs` of `replica` | as 91 |
//! | 105 | `state/conversations.rs` of `replica` | as 91 |
//! | 106 | `views/supply.rs` of `replica` | as 91 |
//! | 107 | `losses/level.rs` of `replica` | as 91 |
//! | 108 | `tests/incomplete.rs` of `store` | as 91 |
//! | 109 | `tests/rejoining.rs` of `replica` | as 91 |
//! | 110 | `walk/given_way.rs` of `replica` | as 91 |
//! | 111 | `tests/torn.rs` of `store` | as 91 |
//! | 112 | `tests/torn.rs` of `store` | as 91 |
//! | 113 | `walk/given_way.rs` of `replica` | as 91 |
//! | 114 | `tests/refusals.rs` of `replica` | here an operation is judged after its control is known |

#![forbid(unsafe_code)]

mod clock;
mod history;
pub mod holdings;
pub mod homes;
pub mod invariants;
mod locks;
mod network;
mod packet;
mod plan;
pub mod pool;
mod random;
mod reading;
mod replica;
mod scenario;
mod site;
mod traffic;
mod tree;
mod violation;
mod workload;
mod world;

pub use network::{Lane, Links};
pub use plan::Plan;
pub use random::Random;
pub use reading::{Entry, Kept, Reader};
pub use replica::Replica;
pub use scenario::Scenario;
pub use traffic::{Cargo, Sent};
pub use tree::{Copy, Edit, Intent, Outcome};
pub use violation::Violation;
pub use world::{Fault, Model, World};
