//! A client uses handles of its own files without a right to do so: after the file was removed or cut, or lost a permission. It also uses
//! handles that no server has made.
//!
//! What must never enter: judgement of accepted requests; see `check::rights`.

use std::time::Duration;

use bytes::Bytes;
use nfs4::{Attributes4, LayoutIomode4, StableHow4};
use nfs4_client::{Client, Error, How, OpenFile};

use super::Worker;
use super::answers::within;
use super::content::{VALUE_SIZE, of_value};
use super::direct::{Direct, Undone};
use super::registers::write_through;
use crate::history::{Act, Outcome, Right, Time};

/// Pauses before a right is tried again.
const AGAIN: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(700),
    Duration::from_secs(3),
];

/// The rights that a client of a pool tries.
const ANY: [Right; 5] = [
    Right::RemovedThere,
    Right::Removed,
    Right::Narrowed,
    Right::Fenced,
    Right::Forged,
];

/// The rights that a client tries if layouts are only for reading. Members of a set may keep a removed file until the other members have said that
/// no client has it open, and they learn of changes a little later.
const IN_SETS: [Right; 2] = [Right::Fenced, Right::Forged];

/// A user that owns nothing.
const STRANGER: u32 = 4711;

impl Worker {
    /// Makes files and ends rights until the work is over.
    pub(super) async fn rights(&mut self) {
        let mut made = 0;
        while let Some(client) = self.next().await {
            made += 1;
            let name = format!("right-{}-{made}", self.number);
            let right = match self.writes_there {
                true => ANY[self.random.below(ANY.len() as u64) as usize],
                false => IN_SETS[self.random.below(IN_SETS.len() as u64) as usize],
            };
            if self.end_and_use(&client, &name, right).await.is_err() {
                self.forget().await;
            }
        }
    }

    async fn end_and_use(
        &mut self,
        client: &Client,
        name: &str,
        right: Right,
    ) -> Result<(), Error> {
        let directory = self.common.tree.own.clone();
        let how = How::create_new(0o666);
        let mut file = within(client.open(&directory, name, &how)).await?;
        let direct = match right {
            Right::Removed | Right::Narrowed => {
                within(client.write_all(&file, 0, &of_value(1))).await?;
                None
            }
            _ if self.writes_there => self.direct(client, &file, LayoutIomode4::ReadWrite).await,
            _ => {
                within(write_through(client, &file, 1, true)).await?;
                file = within(client.open_handle(&file.handle, &How::read())).await?;
                self.direct(client, &file, LayoutIomode4::Read).await
            }
        };
        if let Some(direct) = &direct
            && self.writes_there
        {
            let written = direct.write(0, of_value(1), StableHow4::FileSync).await;
            self.note(&written).await;
        }
        match (right, direct) {
            (Right::Forged, Some(direct)) => {
                let bit = self.random.below(1 << 16);
                self.try_there(right, 0, &direct.forged(bit)).await;
            }
            (Right::Fenced, Some(direct)) => {
                match self.writes_there {
                    true => cut(client, &file).await?,
                    false => self.cut_anywhere(client, &file).await?,
                }
                let ended = self.now();
                self.try_there(right, ended, &direct).await;
            }
            (Right::RemovedThere, Some(direct)) => {
                within(client.close(&file)).await?;
                within(client.remove(&directory, name)).await?;
                let ended = self.now();
                self.try_there(right, ended, &direct).await;
                return Ok(());
            }
            (Right::Removed, _) => {
                within(client.close(&file)).await?;
                self.look_elsewhere(&file).await;
                within(client.remove(&directory, name)).await?;
                let ended = self.now();
                self.try_elsewhere(right, ended, &file).await;
                return Ok(());
            }
            (Right::Narrowed, _) => {
                self.look_elsewhere(&file).await;
                let nothing = Attributes4 {
                    mode: Some(0),
                    ..Attributes4::default()
                };
                within(client.setattr(&file.handle, file.stateid, &nothing)).await?;
                let ended = self.now();
                self.try_elsewhere(right, ended, &file).await;
            }
            // No layout was available.
            _ => {}
        }
        within(client.close(&file)).await?;
        within(client.remove(&directory, name)).await
    }

    /// Cuts a file that a client reads by a layout, at this site or at another one.
    async fn cut_anywhere(&mut self, client: &Client, file: &OpenFile) -> Result<(), Error> {
        let elsewhere = match self.random.below(4) {
            0 => None,
            _ => self.elsewhere().await,
        };
        let client = elsewhere.as_ref().unwrap_or(client);
        let cutting = async {
            let opened = within(client.open_handle(&file.handle, &How::write())).await?;
            cut(client, &opened).await?;
            within(client.close(&opened)).await
        };
        let done = cutting.await;
        if done.is_err() {
            self.elsewhere = None;
        }
        done
    }

    /// Reads and writes at the data server, now and a little later: a stopped data server may continue.
    async fn try_there(&mut self, right: Right, ended: Time, direct: &Direct) {
        for pause in AGAIN {
            tokio::time::sleep(pause).await;
            let begin = self.now();
            let done = match self.random.below(2) {
                0 => direct.read(0, VALUE_SIZE).await.map(drop),
                _ => {
                    let late = Bytes::from_static(b"late");
                    let write = direct.write(0, late, StableHow4::FileSync);
                    write.await.map(drop)
                }
            };
            let act = Act::Old {
                right,
                ended,
                served: done.is_ok(),
            };
            let outcome = match done {
                Err(Undone::Lost) => Outcome::Unknown("the data server does not answer".to_owned()),
                Ok(()) | Err(Undone::Refused) => Outcome::Done,
            };
            let who = (self.site, self.number);
            self.common.record(who, begin, act, outcome);
            if done == Err(Undone::Lost) {
                return self.data_servers.forget().await;
            }
        }
    }

    /// A client of another metadata server.
    async fn elsewhere(&mut self) -> Option<Client> {
        if self.elsewhere.is_none() {
            self.generation += 1;
            let others = self.targets.len() as u64 - 1;
            let step = 1 + self.random.below(others.max(1)) as usize;
            let target = self.targets[(self.site + step) % self.targets.len()].clone();
            let name = format!("nemesis {} {} elsewhere", self.common.seed, self.number);
            let connecting = target.client(&name, self.generation);
            let connected = tokio::time::timeout(super::direct::PATIENCE, connecting).await;
            self.elsewhere = connected.ok().and_then(Result::ok);
        }
        let client = self.elsewhere.clone();
        client.map(|client| client.as_user(STRANGER, STRANGER, &[]))
    }

    /// Asks the other server for attributes, so that it has copies.
    async fn look_elsewhere(&mut self, file: &OpenFile) {
        if let Some(client) = self.elsewhere().await {
            // The answer does not matter here.
            let _ = tokio::time::timeout(super::direct::PATIENCE, client.stat(&file.handle)).await;
        }
    }

    async fn try_elsewhere(&mut self, right: Right, ended: Time, file: &OpenFile) {
        let Some(client) = self.elsewhere().await else {
            return;
        };
        let begin = self.now();
        let opened = within(client.open_handle(&file.handle, &How::read())).await;
        let outcome = match &opened {
            Ok(_) => Outcome::Done,
            Err(error) if error.status().is_some() => Outcome::Done,
            Err(error) => Outcome::Unknown(error.to_string()),
        };
        if outcome != Outcome::Done {
            self.elsewhere = None;
        }
        let act = Act::Old {
            right,
            ended,
            served: opened.is_ok(),
        };
        let who = (self.site, self.number);
        self.common.record(who, begin, act, outcome);
        if let Ok(file) = opened {
            let _ = within(client.close(&file)).await;
        }
    }
}

async fn cut(client: &Client, file: &OpenFile) -> Result<(), Error> {
    let empty = Attributes4 {
        size: Some(0),
        ..Attributes4::default()
    };
    let done = within(client.setattr(&file.handle, file.stateid, &empty)).await;
    done.map(drop)
}
