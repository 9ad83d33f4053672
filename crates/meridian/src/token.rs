//! `meridian set token` and `meridian pool token`: tokens that were printed and not used.
//!
//! What must never enter: how a token is made, and what it admits to.

use std::fmt::Write;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::Serialize;
use server::set::Outstanding;
use server::{moment, pools, set};

use crate::arguments::TokenCommand;
use crate::asking::directory;
use crate::exit::{Exit, Failure};
use crate::output;

/// What a token admits to.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    Set,
    Pool,
}

/// A token that still works, for programs.
#[derive(Serialize)]
#[serde(untagged)]
enum TokenView {
    Set {
        slot: u16,
        witness: bool,
        expires_unix_s: u64,
    },
    Pool {
        number: u16,
        metadata_server: bool,
        expires_unix_s: u64,
    },
}

pub(crate) fn run(of: Of, command: &TokenCommand) -> Result<Exit, Failure> {
    match command {
        TokenCommand::List { data, json } => {
            let tokens = of.tokens(&directory(data))?;
            match json {
                true => {
                    let views = tokens.iter().map(|token| of.view(token));
                    output::say_json(&views.collect::<Vec<_>>())?;
                }
                false => output::say(of.list(&tokens).trim_end())?,
            }
        }
        TokenCommand::Revoke { number, data } => {
            of.revoke(&directory(data), *number)?;
            output::say(format!(
                "The token for {} {number} admits nobody any more; its number is free again.",
                of.member()
            ))?;
        }
    }
    Ok(Exit::Success)
}

impl Of {
    fn tokens(self, data: &Path) -> Result<Vec<Outstanding>, Failure> {
        Ok(match self {
            Of::Set => set::tokens(data)?,
            Of::Pool => pools::tokens(data)?,
        })
    }

    fn revoke(self, data: &Path, number: u16) -> Result<(), Failure> {
        match self {
            Of::Set => set::revoke_token(data, number)?,
            Of::Pool => pools::revoke_token(data, number)?,
        }
        Ok(())
    }

    fn member(self) -> &'static str {
        match self {
            Of::Set => "replica",
            Of::Pool => "server",
        }
    }

    fn view(self, token: &Outstanding) -> TokenView {
        let (number, expires_unix_s) = (token.slot.0, expires_unix_s(token));
        match self {
            Of::Set => TokenView::Set {
                slot: number,
                witness: token.witness,
                expires_unix_s,
            },
            Of::Pool => TokenView::Pool {
                number,
                metadata_server: token.metadata_server,
                expires_unix_s,
            },
        }
    }

    fn list(self, tokens: &[Outstanding]) -> String {
        if tokens.is_empty() {
            return "no token is outstanding\n".to_owned();
        }
        let mut text = String::new();
        for token in tokens {
            let kind = match (self, token.witness) {
                (Of::Set, true) => "  witness",
                (Of::Set, false) => "  replica",
                (Of::Pool, _) if token.metadata_server => "  metadata server",
                (Of::Pool, _) => "  data server",
            };
            let (member, number) = (self.member(), token.slot.0);
            let until = moment(expires_unix_s(token));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{member} {number:<5}{kind}  works until {until}");
        }
        text
    }
}

fn expires_unix_s(token: &Outstanding) -> u64 {
    let expires = token.expires.duration_since(UNIX_EPOCH);
    expires.unwrap_or_default().as_secs()
}
