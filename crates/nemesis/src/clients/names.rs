//! Names: exclusive creations at several sites at once, replacement by rename, and moves between directories.
//!
//! What must never enter: contents, except what identifies the writer of a file.

use nfs4::Verifier4;
use nfs4_client::{Client, Error, How, StableHow4};

use super::Worker;
use super::answers::{outcome_of, unknown, within};
use super::content::of_value;
use super::registers::read_value;
use super::tree::{REPLACED_NAMES, TOKENS, contest_name, replaced_name, token_name};
use crate::history::{Act, Outcome, Refusal, Seen, Time};

/// How long all clients compete for one name, in microseconds.
const CONTEST_US: Time = 500_000;

impl Worker {
    /// Creates, replaces and moves names until the work is over.
    pub(super) async fn names(&mut self) {
        let mut contested = None;
        let mut made = 0;
        while let Some(client) = self.next().await {
            let contest = self.now() / CONTEST_US;
            if contested != Some(contest) {
                contested = Some(contest);
                self.create(&client, contest).await;
                continue;
            }
            match self.random.below(8) {
                0 | 1 => {
                    made += 1;
                    self.replace(&client, made).await;
                }
                2..=4 => self.read_replaced(&client).await,
                _ => self.relocate(&client).await,
            }
        }
    }

    async fn create(&mut self, client: &Client, name: u64) {
        let mut verifier = [0; 8];
        verifier[..4].copy_from_slice(&(self.number as u32 + 1).to_be_bytes());
        verifier[4..].copy_from_slice(&(name as u32).to_be_bytes());
        let how = How::create_exclusive(0o666, Verifier4(verifier));
        let begin = self.now();
        let directory = self.common.tree.contest.clone();
        let prize = contest_name(name);
        let opened = within(client.open(&directory, &*prize, &how)).await;
        let outcome = opened.as_ref().map_or_else(outcome_of, |_| Outcome::Done);
        self.record(begin, Act::Create { name }, outcome).await;
        let Ok(file) = opened else { return };
        let mark = async {
            let content = of_value(self.number as u64);
            client
                .write(&file, 0, content, StableHow4::FileSync)
                .await?;
            client.close(&file).await
        };
        if within(mark).await.is_err() {
            self.forget().await;
        }
    }

    async fn replace(&mut self, client: &Client, made: u64) {
        let value = self.common.fresh_value();
        let name = self.random.below(REPLACED_NAMES as u64) as usize;
        let act = Act::Replace { name, value };
        let directory = self.common.tree.replaced.clone();
        let draft = format!("draft-{}-{made}", self.number);
        let begin = self.now();
        let preparing = async {
            let how = How::create_new(0o666);
            let file = client.open(&directory, &*draft, &how).await?;
            client.write_all(&file, 0, &of_value(value)).await?;
            client.close(&file).await
        };
        if let Err(error) = within(preparing).await {
            // The name did not change, whatever happened to the draft.
            let what = Refusal::Other(format!("no draft: {error}"));
            self.record(begin, act, Outcome::Refused(what)).await;
            return self.forget().await;
        }
        let begin = self.now();
        let current = replaced_name(name);
        let renaming = client.rename(&directory, &*draft, &directory, &*current);
        let outcome = match within(renaming).await {
            Ok(()) => Outcome::Done,
            Err(error) => outcome_of(&error),
        };
        self.record(begin, act, outcome).await;
    }

    async fn read_replaced(&mut self, client: &Client) {
        let name = self.random.below(REPLACED_NAMES as u64) as usize;
        let directory = self.common.tree.replaced.clone();
        let begin = self.now();
        let (how, current) = (How::read(), replaced_name(name));
        let opening = client.open(&directory, &*current, &how);
        let (saw, outcome) = match within(opening).await {
            Err(error) => (None, outcome_of(&error)),
            Ok(file) => {
                let reading = async {
                    let seen = read_value(client, &file).await?;
                    client.close(&file).await?;
                    Ok::<Seen, Error>(seen)
                };
                match within(reading).await {
                    Ok(seen) => (Some(seen), Outcome::Done),
                    Err(error) => (None, unknown(&error)),
                }
            }
        };
        self.record(begin, Act::ReadReplaced { name, saw }, outcome)
            .await;
    }

    async fn relocate(&mut self, client: &Client) {
        use std::sync::atomic::Ordering::Relaxed;
        let token = self.random.below(TOKENS as u64) as usize;
        let rings = self.common.tree.rings.clone();
        let from = self.common.tokens[token].load(Relaxed);
        let to = (from + 1 + self.random.below(rings.len() as u64 - 1) as usize) % rings.len();
        let name = token_name(token);
        let begin = self.now();
        let outcome = match within(client.rename(&rings[from], &*name, &rings[to], &*name)).await {
            Ok(()) => Outcome::Done,
            Err(error) => outcome_of(&error),
        };
        let guess = match outcome {
            Outcome::Done => to,
            _ => self.random.below(rings.len() as u64) as usize,
        };
        self.common.tokens[token].store(guess, Relaxed);
        self.record(begin, Act::Move { token, from, to }, outcome)
            .await;
    }
}
