//! A disk that damages one file of the metadata server, or of a data server, of a pool: the tree is what was answered, or what is damaged
//! is refused with the file and what to do. The other servers of the pool have nothing of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nfs4::NfsStat4;

use super::{
    Damage, Started, Used, assert_none, begin, check, connect, differences, end, files_of, go_on,
    options, other_errors, read_by, some_of, start,
};
use crate::fixture::site::{Site, block_on};
use crate::pool::{address, striping_over};

/// Of all cases, where nobody asks for more.
const FEW: usize = 5;

/// The metadata server and two data servers, which do not run.
struct Pool(Vec<(Site, Used)>);

/// The command that starts one of them.
fn serve((number, site): (usize, &Site)) -> Command {
    let mut command = site.place.serve();
    if number > 0 {
        command.args(["--listen", &address(site)]);
    }
    command
}

impl Pool {
    fn used() -> Pool {
        let (metadata, names, [one, other], servers) = striping_over([2, 3]);
        block_on(async { begin(&connect(names.address).await).await });
        let older: Vec<_> = [&metadata, &one, &other]
            .map(|site| files_of(&site.place.data()))
            .into();
        block_on(async {
            let client = connect(names.address).await;
            go_on(&client).await;
            end(&client).await;
        });
        names.stop();
        for server in servers {
            server.stop();
        }
        let sites = [metadata, one, other].into_iter().zip(older);
        let used = sites.map(|(site, older)| {
            let used = Used::of("", &site.place.data(), older);
            (site, used)
        });
        Pool(used.collect())
    }

    /// Every damage of every file of the metadata server, and of a data server.
    fn cases(&self) -> Vec<(usize, PathBuf, Damage)> {
        let of_server = |number: usize| {
            let cases = self.0[number].1.cases().into_iter();
            cases.map(move |(name, damage)| (number, name, damage))
        };
        (0..2).flat_map(of_server).collect()
    }

    /// Looks what comes of one damage. Returns what should not be.
    fn look_at(&self, (damaged, name, damage): (usize, &Path, Damage)) -> Vec<String> {
        let (mut wrong, mut running, mut logs) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (site, used)) in self.0.iter().enumerate() {
            let what = (number == damaged).then_some((name, damage));
            used.put(&site.place.data(), what);
            let log = site.place.directory.path().join("log of this case");
            match start(&mut serve((number, site)), &log) {
                Started::Serving(server, address) => running.push((number, server, address)),
                Started::Silent => {
                    wrong.push(format!("server {number} neither serves nor says why"))
                }
                Started::Refused(exit) => {
                    let told = fs::read_to_string(&log).unwrap();
                    if number != damaged || exit != Some(1) {
                        wrong.push(format!("server {number} ended with {exit:?}"));
                    }
                    if !used.names(&told, name, damage) {
                        wrong.push("it refuses and does not name the file".to_owned());
                    }
                }
            }
            logs.push(log);
        }
        if let Some((0, _, address)) = running.first() {
            let asked = super::Options {
                patience: Duration::from_secs(3),
                ..options(*address)
            };
            let (tree, errors) = block_on(read_by(asked));
            wrong.extend(differences(&tree, &errors));
            wrong.extend(other_errors(&errors, &[NfsStat4::Io, NfsStat4::Delay]));
            let told = logs.iter().map(|log| fs::read_to_string(log).unwrap());
            let told: String = told.collect();
            if !errors.is_empty() && !self.0[damaged].1.names(&told, name, damage) {
                wrong.push("something is refused, and nobody names the file".to_owned());
            }
        }
        for (_, mut server, _) in running {
            server.kill().unwrap();
            server.wait().unwrap();
        }
        for (number, (site, _)) in self.0.iter().enumerate() {
            let (code, said) = check(&site.place);
            if number != damaged && code != Some(0) {
                wrong.push(format!(
                    "server {number} is damaged, too ({code:?}): {said}"
                ));
            }
        }
        let told = logs.iter().map(|log| fs::read_to_string(log).unwrap());
        let told: Vec<String> = told.collect();
        if told.iter().any(|told| told.contains("panicked")) {
            wrong.push("a server panicked".to_owned());
        }
        if !wrong.is_empty() {
            wrong.extend(told);
        }
        wrong
    }
}

#[test]
fn damage_at_one_server_of_a_pool_is_named_and_spreads_to_no_other() {
    let pool = Pool::used();
    let mut wrong = Vec::new();
    for (number, name, damage) in some_of(pool.cases(), FEW) {
        let found = pool.look_at((number, &name, damage));
        if !found.is_empty() {
            let what = name.display();
            wrong.push(format!(
                "server {number}, {what} {damage:?}: {}",
                found.join("; ")
            ));
        }
    }
    assert_none(&wrong);
}
