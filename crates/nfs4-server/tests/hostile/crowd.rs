//! Several clients of one server, and what each of them remembers of its requests.

#[path = "../../../../fuzz/inputs.rs"]
#[allow(dead_code, reason = "only whole requests are broken here")]
mod inputs;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use nfs4::{
    ArgOp4, CompoundRes, NfsStat4, OpenArgs, Opnum, ResOp4, SequenceArgs, Stateid4, Verifier4,
    share,
};
use nfs4_server::state::{Memory, StateCounts};
use nfs4_server::{ClientId, Connection, Limits, Service};
use oncrpc::Message;
use tokio::task::JoinHandle;
use xdr::{Bytes, Decode, Reader};

use super::arguments::{self, Seen, of, one_in};
use super::{CLIENTS, ROUNDS, errors};
use crate::fixture::operations::*;
use crate::fixture::sessions::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, MemoryRecords, Successful, go_to, pass, statuses};

const SESSIONS_EACH: usize = 2;
const USERS: [u32; 4] = [0, 0, 1000, 65_534];
/// The slots of a session, of which the first ones are used at the same time.
const SLOTS: u32 = 8;
const AT_A_TIME: u32 = 3;
/// No request takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request on a slot.
#[derive(Clone, Debug)]
struct Asked {
    /// Under whose name it is sent.
    user: u32,
    sequence: SequenceArgs,
    operations: Vec<ArgOp4>,
}

impl Asked {
    fn all(&self) -> Vec<ArgOp4> {
        let first = ArgOp4::Sequence(self.sequence);
        std::iter::once(first)
            .chain(self.operations.clone())
            .collect()
    }

    /// Whether its reply is kept.
    fn is_kept(&self) -> bool {
        self.sequence.cachethis || self.operations.is_empty()
    }
}

/// A session, as its client knows it.
struct User {
    /// Which client it is of.
    number: usize,
    client: Client,
    connection: Arc<dyn Connection>,
    /// Of each slot the next number, and the last request with its reply.
    slots: Vec<(u32, Option<(Asked, CompoundRes)>)>,
}

type Answer = JoinHandle<CompoundRes>;

impl User {
    fn ask(&self, asked: &Asked) -> Answer {
        let (client, all) = (self.client.as_user(asked.user, 100, &[]), asked.all());
        tokio::spawn(async move {
            let reply = tokio::time::timeout(PATIENCE, client.without_session(all.clone())).await;
            let reply = reply.unwrap_or_else(|_| panic!("no answer: {all:?}"));
            judge(&all, &reply);
            reply
        })
    }

    fn sequence(&self, slot: u32, random: &mut Rng) -> SequenceArgs {
        SequenceArgs {
            sessionid: self.client.session,
            sequenceid: self.slots[slot as usize].0,
            slotid: slot,
            highest_slotid: random.u32(slot..SLOTS),
            cachethis: random.bool(),
        }
    }

    /// Takes note of how a request ended. Whether the session is there still.
    fn learn(&mut self, asked: &Asked, reply: &CompoundRes) -> bool {
        match reply.results[0].status() {
            NfsStat4::Ok => {
                let slot = &mut self.slots[asked.sequence.slotid as usize];
                slot.0 = asked.sequence.sequenceid.wrapping_add(1);
                slot.1 = Some((asked.clone(), reply.clone()));
                true
            }
            // None of them takes the slot (RFC 8881, section 18.46.3).
            NfsStat4::ReqTooBig
            | NfsStat4::TooManyOps
            | NfsStat4::RepTooBig
            | NfsStat4::RepTooBigToCache => true,
            NfsStat4::BadSession => false,
            refused => panic!("{refused:?}: {asked:?}", asked = asked.sequence),
        }
    }
}

/// What holds for every reply.
fn judge(asked: &[ArgOp4], reply: &CompoundRes) {
    let told = statuses(reply);
    let last = told.last().expect("the first operation has a result");
    assert_eq!(*last, reply.status, "{asked:?}: {reply:?}");
    let (_, before) = told.split_last().expect("not empty");
    assert!(before.iter().all(|status| status.is_ok()), "{reply:?}");
    assert!(told.len() <= asked.len(), "{asked:?}: {reply:?}");
    if last.is_ok() {
        assert_eq!(told.len(), asked.len(), "{asked:?}: {reply:?}");
    }
    for (operation, result) in asked.iter().zip(&reply.results) {
        let illegal = u32::from(Opnum::Illegal);
        let is_of = [operation.opnum(), illegal].contains(&result.opnum());
        assert!(is_of && errors::is_named(result), "{asked:?}: {reply:?}");
    }
}

/// Clients of one server.
pub struct Crowd<'f> {
    fixture: &'f Fixture,
    service: Arc<Service>,
    records: Arc<MemoryRecords>,
    random: Rng,
    seen: Seen,
    users: Vec<User>,
    /// Requests of which all operations succeeded.
    granted: usize,
}

impl<'f> Crowd<'f> {
    pub async fn new(
        fixture: &'f Fixture,
        service: Arc<Service>,
        records: Arc<MemoryRecords>,
        seed: u64,
    ) -> Crowd<'f> {
        let before = fixture.client().await;
        before.make_file("/export", "a").await;
        let special = [
            Stateid4::ANONYMOUS,
            Stateid4::READ_BYPASS,
            Stateid4::CURRENT,
            Stateid4::INVALID,
        ];
        let seen = Seen {
            stateids: special.to_vec(),
            handles: vec![
                before.handle("/export/a").await,
                before.handle("/export").await,
                before.handle("/").await,
            ],
            sessions: vec![Default::default()],
            ids: vec![0],
        };
        before
            .without_session(vec![destroy_session(before.session)])
            .await
            .ok();
        before
            .without_session(vec![destroy_clientid(before.id)])
            .await
            .ok();
        Crowd {
            fixture,
            service,
            records,
            random: Rng::with_seed(seed),
            seen,
            users: Vec::new(),
            granted: 0,
        }
    }

    pub async fn play(mut self) {
        self.rounds(ROUNDS).await;
        assert!(self.granted > ROUNDS, "only {} were granted", self.granted);
        self.go().await;
        self.is_all_free().await;
    }

    pub async fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.come().await;
            self.live().await;
        }
    }

    /// Brings clients up to their sessions, as the same ones or started anew.
    async fn come(&mut self) {
        for number in 0..CLIENTS {
            if self.users.iter().any(|user| user.number == number) {
                continue;
            }
            let (client, connection) = self.stranger();
            let mut same = introduction(&format!("client {number}"));
            same.clientowner.verifier = Verifier4([self.random.u8(..2); 8]);
            let told = client.without_session(vec![exchange_id(same)]).await;
            self.seen.learn(&told);
            let Some(ResOp4::ExchangeId(Ok(known))) = told.results.first() else {
                // Another user may have taken the name.
                let waits = [NfsStat4::Delay, NfsStat4::ClidInUse];
                assert!(waits.contains(&told.status), "{told:?}");
                continue;
            };
            for more in 0..SESSIONS_EACH as u32 {
                let request = session_request(known.clientid, known.sequenceid + more);
                let told = client.without_session(vec![create_session(request)]).await;
                self.seen.learn(&told);
                let Some(ResOp4::CreateSession(Ok(created))) = told.results.first() else {
                    break;
                };
                let client = client.in_session(created.sessionid);
                self.users.push(User {
                    number,
                    client,
                    connection: connection.clone(),
                    slots: vec![(1, None); SLOTS as usize],
                });
            }
        }
    }

    fn stranger(&self) -> (Client, Arc<dyn Connection>) {
        let connection = self.fixture.connection();
        self.service.connection_opened(connection.clone());
        let client = Client::stranger(self.service.clone(), connection.clone());
        (client, connection)
    }

    /// A round: all ask, and something happens besides.
    async fn live(&mut self) {
        let service = self.service.clone();
        let id = ClientId(of(&mut self.random, &self.seen.ids));
        let is_evicted = one_in(&mut self.random, 8);
        let event = tokio::spawn(async move {
            match is_evicted {
                true => drop(service.evict(id).await),
                false => service.housekeep().await,
            }
        });
        let users = std::mem::take(&mut self.users);
        let mut left = Vec::new();
        let under_way: Vec<_> = users.into_iter().map(|user| self.begin(user)).collect();
        for begun in under_way {
            left.extend(self.end(begun).await);
        }
        for user in left {
            if let Some(user) = self.repeats(user).await {
                let user = self.goes_on(user);
                self.users.extend(user);
            }
        }
        event.await.unwrap();
        if one_in(&mut self.random, 3) {
            pass(Limits::default().lease / 2);
        }
    }

    fn asked(&mut self, user: &User, slot: u32) -> Asked {
        let random = &mut self.random;
        let sequence = user.sequence(slot, random);
        let mut operations = match random.usize(..4) {
            0 => vec![],
            1 => vec![putfh(&of(random, &self.seen.handles))],
            _ => go_to("/export"),
        };
        if one_in(random, 2) {
            operations.push(savefh());
        }
        let many = if one_in(random, 30) { 1000 } else { 4 };
        for _ in 0..random.usize(..many) {
            operations.push(arguments::operation(&self.seen, random));
        }
        operations.push(getfh());
        if slot == 0 && user.slots[0].1.is_none() && !one_in(random, 4) {
            operations = vec![reclaim_complete()];
        }
        let user = of(random, &USERS);
        Asked {
            user,
            sequence,
            operations,
        }
    }

    /// Sends several requests of a session at the same time, some of them twice.
    fn begin(&mut self, user: User) -> (User, Vec<(Asked, Vec<Answer>)>) {
        let mut under_way = Vec::new();
        for slot in 0..self.random.u32(1..=AT_A_TIME) {
            let asked = self.asked(&user, slot);
            let copies = if one_in(&mut self.random, 5) { 2 } else { 1 };
            let answers = (0..copies).map(|_| user.ask(&asked)).collect();
            under_way.push((asked, answers));
        }
        if one_in(&mut self.random, 10) {
            self.service.connection_closed(user.connection.id());
        }
        (user, under_way)
    }

    /// Waits for the answers. Returns the user unless its session is gone.
    async fn end(&mut self, begun: (User, Vec<(Asked, Vec<Answer>)>)) -> Option<User> {
        let (mut user, under_way) = begun;
        let mut is_there = true;
        for (asked, answers) in under_way {
            let mut told = Vec::new();
            for answer in answers {
                told.push(answer.await.unwrap());
            }
            // One of two that are the same is executed; the other one is told so, or gets the same answer.
            if told.len() > 1 {
                let also = [NfsStat4::Delay, NfsStat4::RetryUncachedRep];
                told.sort_by_key(|reply| also.contains(&reply.results[0].status()));
                let again = told.pop().unwrap();
                let is_same = again == told[0] || also.contains(&again.results[0].status());
                assert!(is_same || self.is_gone(&user).await, "{told:?}: {again:?}");
            }
            self.seen.learn(&told[0]);
            self.granted += usize::from(told[0].status.is_ok());
            is_there &= user.learn(&asked, &told[0]);
        }
        is_there.then_some(user)
    }

    /// Whether a session does not exist any more.
    async fn is_gone(&mut self, user: &User) -> bool {
        let bare = Asked {
            user: 0,
            sequence: user.sequence(SLOTS - 1, &mut self.random),
            operations: Vec::new(),
        };
        let told = user.ask(&bare).await.unwrap();
        told.results[0].status() == NfsStat4::BadSession
    }

    /// Sends the last request of a slot once more, requests that fit no slot, and broken ones. Returns the user unless its session is
    /// gone.
    async fn repeats(&mut self, user: User) -> Option<User> {
        let random = &mut self.random;
        let slot = random.u32(..AT_A_TIME) as usize;
        let (next, last) = user.slots[slot].clone();
        let Some((asked, before)) = last else {
            return Some(user);
        };
        let mut wrong = asked.clone();
        let expected = match random.usize(..8) {
            0 => {
                wrong.operations.push(getfh());
                NfsStat4::SeqFalseRetry
            }
            1 => {
                wrong.sequence.slotid = of(random, &[SLOTS, u32::MAX]);
                NfsStat4::BadSlot
            }
            2 => {
                wrong.sequence.highest_slotid = of(random, &[SLOTS, u32::MAX]);
                NfsStat4::BadHighSlot
            }
            3 => {
                let away = of(random, &[1, 2, 1 << 31, u32::MAX - 1]);
                wrong.sequence.sequenceid = next.wrapping_add(away);
                NfsStat4::SeqMisordered
            }
            4 => {
                wrong.user += 1;
                NfsStat4::SeqFalseRetry
            }
            5 => {
                wrong.sequence.slotid = AT_A_TIME;
                self.broken(&user, &mut wrong).await;
                return Some(user);
            }
            _ => match asked.is_kept() {
                true => NfsStat4::Ok,
                false => NfsStat4::RetryUncachedRep,
            },
        };
        let told = user.ask(&wrong).await.unwrap();
        let status = told.results[0].status();
        let is_right = status == expected && (status != NfsStat4::Ok || told == before);
        if is_right {
            return Some(user);
        }
        assert!(
            self.is_gone(&user).await,
            "{expected:?}: {wrong:?}, {told:?}"
        );
        None
    }

    /// Sends a request of which what follows SEQUENCE is damaged.
    async fn broken(&mut self, user: &User, asked: &mut Asked) {
        let alone = user
            .client
            .call(b"fixture", vec![ArgOp4::Sequence(asked.sequence)]);
        let record = user.client.call(b"fixture", asked.all());
        let mut rest = record[alone.len()..].to_vec();
        inputs::Numbers::new(self.random.u64(..)).mutate(&mut rest);
        let record = Bytes::from([&record[..alone.len()], &rest].concat());
        let reply = user.client.send(record).await.expect("it is a call");
        let mut reader = Reader::new(reply);
        let header = Message::parse(&mut reader).expect("the reply has a header");
        let Message::Reply(header) = header else {
            panic!("{header:?}");
        };
        // Where the header of the COMPOUND does not fit what follows, it is garbage.
        if let Ok(reply) = CompoundRes::<ResOp4>::decode(&mut reader) {
            assert!(reply.results.iter().all(errors::is_named), "{reply:?}");
        } else {
            assert!(format!("{header:?}").contains("GarbageArguments"));
        }
    }

    /// Some go without a word, some go on over another connection.
    fn goes_on(&mut self, mut user: User) -> Option<User> {
        match self.random.usize(..16) {
            0 => return None,
            1..4 => {
                let (_, connection) = self.stranger();
                user.client = user.client.over(connection.clone());
                user.connection = connection;
            }
            _ => {}
        }
        Some(user)
    }

    async fn go(&mut self) {
        for user in self.users.drain(..) {
            self.service.connection_closed(user.connection.id());
        }
        let nothing = StateCounts {
            clients: 0,
            sessions: 0,
            opens: 0,
            locks: 0,
            memory: Memory::default(),
        };
        for _ in 0..1000 {
            pass(Limits::default().lease);
            self.service.housekeep().await;
            if self.service.counts() == nothing && self.records.owners().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!(
            "left: {:?}, {:?}",
            self.service.counts(),
            self.records.owners()
        );
    }

    /// Nothing is in the way of a client that comes later.
    async fn is_all_free(&self) {
        let later = Client::connect(self.service.clone(), self.stranger().1, "later").await;
        for handle in &self.seen.handles {
            let open = ArgOp4::Open(OpenArgs {
                share_deny: share::DENY_BOTH,
                ..open_args("later", share::ACCESS_BOTH)
            });
            let lock = ArgOp4::Lock(first_lock(Stateid4::CURRENT, "later", 0, u64::MAX));
            let reply = later.on(handle, [open, lock]).await;
            let no_file = [NfsStat4::Stale, NfsStat4::IsDir, NfsStat4::Symlink];
            let no_file = [&no_file[..], &[NfsStat4::WrongType, NfsStat4::BadHandle]].concat();
            let is_free = reply.status.is_ok() || no_file.contains(&reply.status);
            assert!(is_free, "{reply:?}");
        }
    }
}
