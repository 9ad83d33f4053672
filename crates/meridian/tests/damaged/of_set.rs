//! A disk that damages one file of a member of a set, while the others run: they serve all that was answered, before and after they
//! meet the damaged one, which serves the same, or refuses and says which file it is and what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nfs4::NfsStat4;

use super::{
    Damage, Started, Used, answered, assert_none, begin, connect, content, differences, end,
    files_of, go_on, options, other_errors, read_all, read_by, some_of, start, write,
};
use crate::fixture::Running;
use crate::fixture::site::{Site, block_on};
use crate::restored::{eventually, members};

/// A majority is left beside one that is damaged.
const MEMBERS: usize = 3;

/// Of all cases, where nobody asks for more.
const FEW: usize = 6;

/// The members of a set that do not run, as they were left in order.
struct Set(Vec<(Site, Used)>);

/// Ends all, once nobody decides about anything.
fn stop(members: Vec<(Site, Running)>) -> Vec<Site> {
    for (site, _) in &members {
        eventually("nobody decides about anything", || {
            let exports = site.place.status().exports;
            exports.iter().all(|export| {
                let replication = export.replication.as_ref().unwrap();
                let has_all =
                    |peer: &server::PeerView| peer.lag_updates == 0 && peer.lag_files == 0;
                replication.controls_total == 0 && replication.peers.iter().all(has_all)
            })
        });
    }
    let stopped = members.into_iter().map(|(site, server)| {
        server.stop();
        site
    });
    stopped.collect()
}

impl Set {
    fn used() -> Set {
        let running = members(MEMBERS);
        block_on(async { begin(&connect(running[0].1.address).await).await });
        let sites = stop(running);
        let older: Vec<_> = sites
            .iter()
            .map(|site| files_of(&site.place.data()))
            .collect();
        let running = sites.into_iter().map(|site| {
            let server = site.place.start();
            (site, server)
        });
        let running: Vec<_> = running.collect();
        block_on(async {
            let client = connect(running[0].1.address).await;
            go_on(&client).await;
            end(&client).await;
        });
        let sites = stop(running).into_iter().zip(older);
        let used = sites.map(|(site, older)| {
            let used = Used::of("", &site.place.data(), older);
            (site, used)
        });
        Set(used.collect())
    }

    /// Every damage of every file of the member that made the changes, and of one that followed.
    fn cases(&self) -> Vec<(usize, PathBuf, Damage)> {
        let of_member = |member: usize| {
            let cases = self.0[member].1.cases().into_iter();
            cases.map(move |(name, damage)| (member, name, damage))
        };
        (0..2).flat_map(of_member).collect()
    }

    /// Looks what comes of one damage. Returns what should not be.
    fn look_at(&self, (member, name, damage): (usize, &Path, Damage)) -> Vec<String> {
        for (number, (site, used)) in self.0.iter().enumerate() {
            let damaged = (number == member).then_some((name, damage));
            used.put(&site.place.data(), damaged);
        }
        let (site, used) = &self.0[member];
        let log = site.place.directory.path().join("log of the damaged one");
        let started = start(&mut site.place.serve(), &log);
        let others: Vec<_> = (0..MEMBERS).filter(|number| *number != member).collect();
        let running: Vec<Running> = others
            .iter()
            .map(|number| self.0[*number].0.place.start())
            .collect();
        let mut wrong = serve_all(&running, "before");
        match started {
            Started::Silent => wrong.push("it neither serves nor says why".to_owned()),
            Started::Refused(exit) => {
                let told = fs::read_to_string(&log).unwrap();
                if exit != Some(1) {
                    wrong.push(format!("it ended with {exit:?}"));
                }
                if !used.names(&told, name, damage) {
                    wrong.push("it refuses and does not name the file".to_owned());
                }
            }
            Started::Serving(mut server, address) => {
                let asked = super::Options {
                    patience: Duration::from_secs(5),
                    ..options(address)
                };
                let (tree, errors) = block_on(read_by(asked));
                wrong.extend(differences(&tree, &errors));
                // It may take no part, or end later; then it says why.
                let told = fs::read_to_string(&log).unwrap();
                let is_told = used.names(&told, name, damage) || told.contains("rejoin");
                if !errors.is_empty() && !is_told {
                    wrong.push("something is refused, and it does not say why".to_owned());
                    wrong.extend(other_errors(&errors, &[NfsStat4::Io]));
                }
                wrong.extend(serve_all(&running, "after"));
                server.kill().unwrap();
                server.wait().unwrap();
            }
        }
        let told = fs::read_to_string(&log).unwrap();
        if told.contains("panicked") {
            wrong.push("it panicked".to_owned());
        }
        if !wrong.is_empty() {
            wrong.push(told);
        }
        wrong
    }
}

/// The members that are not damaged serve everything, and make changes.
fn serve_all(running: &[Running], when: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for server in running {
        let (tree, errors) = block_on(read_all(server.address));
        wrong.extend(differences(&tree, &errors));
        wrong.extend(other_errors(&errors, &[]));
    }
    block_on(async {
        let client = connect(running[0].address).await;
        let root = client.mount("/export").await.unwrap();
        write(&client, &root, "made", &content(10, 5000)).await;
        client.remove(&root, "made").await.unwrap();
        client.leave().await.unwrap();
    });
    let at = |what: String| format!("{when}, at another member: {what}");
    wrong.into_iter().map(at).collect()
}

#[test]
fn damage_at_one_member_is_named_and_spreads_to_no_other() {
    let set = Set::used();
    assert!(!answered().is_empty());
    let mut wrong = Vec::new();
    for (member, name, damage) in some_of(set.cases(), FEW) {
        let found = set.look_at((member, &name, damage));
        if !found.is_empty() {
            let what = name.display();
            wrong.push(format!(
                "member {member}, {what} {damage:?}: {}",
                found.join("; ")
            ));
        }
    }
    assert_none(&wrong);
}
