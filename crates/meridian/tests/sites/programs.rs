//! Programs that people run, each over the mounts of several sites.
//!
//! What must never enter: what the programs do is theirs; only that it comes out right.

use anyhow::{Result, ensure};

use crate::scene::{NAMES, in_sites};

/// Git asks for names that are not there, and trusts the answer. A client of NFS remembers for half a minute
/// that a name is missing, also where one server alone is shared, unless the mount forbids it (nfs(5)).
const NAMES_ASKED_FOR: &str = "nosharecache,lookupcache=none";

/// Who commits; nothing of the machine's own configuration.
const GIT: &str = "
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a
    export GIT_COMMITTER_EMAIL=a@example.org GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
    ";

pub fn git_commits_and_collects_garbage_at_three_sites() -> Result<()> {
    in_sites(|sites| {
        sites.mount_as(NAMES_ASKED_FOR, "/run/git")?;
        let git = |site: usize, script: &str| sites.run(site, format!("{GIT}{script}"));
        let begin = "
            git init -q -b main /run/home/origin && cd /run/home/origin || exit 1
            mkdir a b && for n in {1..20}; do echo $n > a/$n; echo $n > b/$n; done
            git add . && git commit -q -m begin &&
            git clone -q /run/home/origin /run/git/repository";
        git(0, begin)?;
        for round in 0..2 {
            for (site, name) in NAMES.iter().enumerate() {
                let commit = format!(
                    "cd /run/git/repository && echo {round} >> {name} && echo {name} >> a/1 &&
                     git add {name} a/1 && git commit -q -m '{name} {round}'"
                );
                git(site, &commit)?;
            }
            git(1 + round, "cd /run/git/repository && git gc -q --prune=now")?;
        }
        for (site, here) in NAMES.iter().enumerate() {
            let look = "
                cd /run/git/repository && git fsck --full --strict && git status --porcelain &&
                git log --format=%s";
            let log = git(site, look)?.text();
            let wanted = "rome 1\noslo 1\nparis 1\nrome 0\noslo 0\nparis 0\nbegin\n";
            ensure!(log == wanted, "{here} sees {log}");
        }
        sites.equal_everywhere("repository")?;
        Ok(())
    })
}

pub fn sqlite_counts_at_two_sites() -> Result<()> {
    const STEPS: usize = 8;
    in_sites(|sites| {
        let make = "sqlite3 /run/m/db 'create table t (site text, n integer)'";
        sites.run(0, make)?;
        let work = |name: &str| {
            let steps = (0..STEPS).map(|n| format!("insert into t values ('{name}', {n});\n"));
            let steps: String = steps.collect();
            format!("sqlite3 -bail -cmd '.timeout 80000' /run/m/db <<'END'\n{steps}END\n")
        };
        let jobs = [sites.start(1, work("oslo"))?, sites.start(2, work("rome"))?];
        for job in &jobs {
            crate::scene::finish(job)?;
        }
        for (site, name) in NAMES.iter().enumerate() {
            let look = "sqlite3 /run/m/db 'pragma integrity_check; select count(*) from t; \
                        select count(distinct n) from t'";
            let seen = sites.run(site, look)?.text();
            let wanted = format!("ok\n{}\n{STEPS}\n", STEPS * 2);
            ensure!(seen == wanted, "{name} sees {seen}");
        }
        sites.equal_everywhere(".")?;
        Ok(())
    })
}

pub fn rsync_finds_at_one_site_what_it_copied_at_another() -> Result<()> {
    in_sites(|sites| {
        let make = "
            mkdir -p /run/home/copied/{a,b} && cd /run/home/copied || exit 1
            for n in {1..60}; do echo $n > a/$n; done
            head -c 3000000 /dev/zero > b/zeros && ln -s ../a b/link && ln a/1 b/hard
            touch -d '2001-02-03 04:05:06.789' b/old && chmod 640 a/2";
        let make = |site: usize| sites.run(site, make);
        make(0)?;
        sites.run(0, "rsync -aHS /run/home/copied/ /run/m/copied/")?;
        sites.equal_everywhere("copied")?;
        // The second time it reads where others wrote, and changes what differs.
        let again = "
            mkdir /run/home/copied && rsync -aHS /run/m/copied/ /run/home/copied/ &&
            echo more >> /run/home/copied/a/3 && rm /run/home/copied/a/4 &&
            rsync -aHS --delete /run/home/copied/ /run/m/copied/ && rm -r /run/home/copied";
        for site in 1..NAMES.len() {
            sites.run(site, again.replace("a/4", &format!("a/{}", 4 + site)))?;
        }
        let seen = sites.equal_everywhere("copied")?;
        ensure!(seen.contains("a/4 f") && !seen.contains("a/5 f") && !seen.contains("a/6 f"));
        let more = sites.run(0, "cat /run/w/copied/a/3")?.text();
        ensure!(more == "3\nmore\nmore\n", "{more}");
        sites.run(0, "rm -r /run/home/copied")?;
        Ok(())
    })
}
