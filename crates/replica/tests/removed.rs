//! Files that are open at one site and removed, or replaced, at another.

use crate::fixture::{READ, ROOT, Set, Site, WRITE, eventually};
use vfs::{Error, FileSystem, ObjectId};

/// How many files without a name a replica keeps.
fn orphans(site: &Site) -> u64 {
    site.store.statistics().orphans
}

async fn nothing_is_left(set: &Set) {
    for (number, site) in set.sites.iter().enumerate() {
        let gone = || orphans(site) == 0;
        eventually(&format!("site {number} lets removed files go"), gone).await;
    }
}

/// The same where no file is left at all: the bytes are free, too.
async fn no_bytes_are_left(set: &Set) {
    nothing_is_left(set).await;
    for (number, site) in set.sites.iter().enumerate() {
        let freed = || site.data_files() == 0;
        eventually(&format!("site {number} frees the bytes"), freed).await;
    }
}

/// Reads, writes, makes it stable and reads again through an open, while the file has no name.
async fn use_without_a_name(site: &Site, file: ObjectId, is: &[u8], becomes: &[u8]) {
    assert_eq!(site.read(file).await.unwrap(), is);
    site.write_stably(file, becomes).await.unwrap();
    assert_eq!(site.read(file).await.unwrap(), becomes);
    assert_eq!(site.files.attributes(file).await.unwrap().links, 0);
}

/// Opens of other sites were unknown where a file was removed: read, write and fsync through the descriptor got ESTALE,
/// and what was kept stayed until the server was started anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_site_removes_or_replaces_stays_open_at_another() {
    let set = Set::of(3).await;
    let (remover, user) = (&set.sites[0], &set.sites[1]);
    for round in 0..6 {
        let file = remover.save(ROOT, "f", b"before").await.unwrap();
        if round % 2 == 0 {
            // Nobody controls it, and every copy is the same.
            set.rest().await;
        }
        user.open(file, "user", READ.union(WRITE)).await.unwrap();
        match round % 3 {
            0 => remover.remove(ROOT, "f").await.unwrap(),
            _ => {
                remover.save(ROOT, "new", b"another").await.unwrap();
                remover.rename((ROOT, "new"), (ROOT, "f")).await.unwrap();
            }
        }
        use_without_a_name(user, file, b"before", b"behind").await;
        set.rest().await;
        use_without_a_name(user, file, b"behind", b"after!").await;
        user.close(file, "user").await.unwrap();
        nothing_is_left(&set).await;
        assert_eq!(user.files.attributes(file).await, Err(Error::Stale));
        if round % 3 != 0 {
            remover.remove(ROOT, "f").await.unwrap();
        }
    }
    no_bytes_are_left(&set).await;
    set.assert_equal().await;
}

/// Clients believe what they have cached until the change attribute is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_through_one_site_shows_in_the_change_attribute_at_the_others() {
    let set = Set::of(3).await;
    let [one, remover, other] = &set.sites[..] else {
        panic!("three were started");
    };
    for round in 0..8 {
        let file = remover.save(ROOT, "f", b"before").await.unwrap();
        if round % 2 == 0 {
            set.rest().await;
        }
        for site in [one, other] {
            site.open(file, "user", READ.union(WRITE)).await.unwrap();
            assert_eq!(site.read(file).await.unwrap(), b"before");
        }
        let seen = other.files.attributes(file).await.unwrap();
        if round % 4 < 2 {
            remover.save(ROOT, "new", b"another").await.unwrap();
            remover.rename((ROOT, "new"), (ROOT, "f")).await.unwrap();
        } else {
            remover.remove(ROOT, "f").await.unwrap();
        }
        one.write_stably(file, b"behind").await.unwrap();
        let now = other.files.attributes(file).await.unwrap();
        assert!(now.change > seen.change, "round {round}: {seen:?} {now:?}");
        assert_eq!(other.read(file).await.unwrap(), b"behind");
        for site in [one, other] {
            site.close(file, "user").await.unwrap();
        }
        nothing_is_left(&set).await;
        if round % 4 < 2 {
            remover.remove(ROOT, "f").await.unwrap();
        }
    }
}

/// An open of a file that had not arrived was registered nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_may_be_removed_before_it_has_come_to_where_it_is_open() {
    let set = Set::of(2).await;
    let (remover, user) = (&set.sites[0], &set.sites[1]);
    for round in 0..20 {
        let file = remover.save(ROOT, "f", b"quick").await.unwrap();
        user.open(file, "user", READ.union(WRITE)).await.unwrap();
        remover.remove(ROOT, "f").await.unwrap();
        let text = format!("{round:05}");
        use_without_a_name(user, file, b"quick", text.as_bytes()).await;
        user.close(file, "user").await.unwrap();
    }
    no_bytes_are_left(&set).await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_several_sites_share_a_file_without_a_name() {
    let set = Set::of(3).await;
    let [remover, one, other] = &set.sites[..] else {
        panic!("three were started");
    };
    let file = one.save(ROOT, "f", b"0").await.unwrap();
    for site in [remover, one, other] {
        site.open(file, "user", READ.union(WRITE)).await.unwrap();
    }
    remover.remove(ROOT, "f").await.unwrap();
    for round in 1..9 {
        let text = round.to_string();
        [one, other][round % 2]
            .write(file, 0, text.as_bytes())
            .await
            .unwrap();
        for site in [remover, one, other] {
            assert_eq!(site.read(file).await.unwrap(), text.as_bytes());
        }
    }
    // It is where it was removed that the last close counts, wherever it is.
    remover.close(file, "user").await.unwrap();
    one.close(file, "user").await.unwrap();
    set.rest().await;
    assert_eq!(other.read(file).await.unwrap(), b"8");
    other.close(file, "user").await.unwrap();
    nothing_is_left(&set).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_removals_ask_nobody_and_leave_nothing() {
    let set = Set::of(3).await;
    let site = &set.sites[0];
    let below = site.directory(ROOT, "d").await.unwrap();
    for number in 0..200 {
        let name = number.to_string();
        site.save(below, &name, b"content").await.unwrap();
    }
    set.rest().await;
    let asked = || -> u64 {
        let sites = set.sites.iter();
        sites.map(|site| site.replica.status().forwarded).sum()
    };
    let before = asked();
    for number in 0..200 {
        site.remove(below, &number.to_string()).await.unwrap();
    }
    no_bytes_are_left(&set).await;
    assert_eq!(asked(), before);
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_file_outlives_the_server_that_removed_it() {
    let mut set = Set::failing(3).await;
    let file = set.sites[1].save(ROOT, "f", b"before").await.unwrap();
    set.rest().await;
    set.sites[1]
        .open(file, "user", READ.union(WRITE))
        .await
        .unwrap();
    set.sites[2].remove(ROOT, "f").await.unwrap();
    use_without_a_name(&set.sites[1], file, b"before", b"behind").await;
    let crashed = set.crash(2).await;
    use_without_a_name(&set.sites[1], file, b"behind", b"beyond").await;
    set.revive(2, crashed).await;
    set.revive_until_ready(2).await;
    use_without_a_name(&set.sites[1], file, b"beyond", b"after!").await;
    set.sites[1].close(file, "user").await.unwrap();
    nothing_is_left(&set).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_server_had_open_goes_a_lease_later() {
    let mut set = Set::failing(3).await;
    let file = set.sites[0].save(ROOT, "f", b"before").await.unwrap();
    set.rest().await;
    set.sites[2].open(file, "user", READ).await.unwrap();
    set.sites[0].remove(ROOT, "f").await.unwrap();
    assert_eq!(set.sites[2].read(file).await.unwrap(), b"before");
    assert_eq!(orphans(&set.sites[0]), 1);
    let crashed = set.crash(2).await;
    nothing_is_left(&set).await;
    drop(crashed);
}

/// The client of a server that was started anew reclaims its open; who removed the file waits for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_is_reclaimed_after_its_server_was_started_anew() {
    reclaim_after_a_restart(false).await;
}

/// The contents of what was removed were offered to a replica on its way back, which has a version of its own, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_is_reclaimed_though_the_others_had_gone_on_without_its_server() {
    reclaim_after_a_restart(true).await;
}

async fn reclaim_after_a_restart(excluded: bool) {
    let mut set = Set::failing(3).await;
    let file = set.sites[0].save(ROOT, "f", b"before").await.unwrap();
    let other = set.sites[0].save(ROOT, "g", b"others").await.unwrap();
    set.rest().await;
    for file in [file, other] {
        set.sites[1]
            .open(file, "user", READ.union(WRITE))
            .await
            .unwrap();
    }
    // One is removed before the restart and one while the server is away.
    set.sites[0].remove(ROOT, "f").await.unwrap();
    set.rest().await;
    let crashed = set.crash(1).await.reclaiming();
    set.sites[0].remove(ROOT, "g").await.unwrap();
    if excluded {
        eventually("the others go on without it", || {
            let members = set.sites[0].replica.view_status().members;
            members
                .iter()
                .any(|member| member.slot == 2 && !member.active)
        })
        .await;
    }
    set.revive(1, crashed).await;
    set.revive_until_ready(1).await;
    let user = &set.sites[1];
    for (file, is) in [(file, b"before"), (other, b"others")] {
        user.open(file, "user", READ.union(WRITE)).await.unwrap();
        use_without_a_name(user, file, is, b"behind").await;
    }
    user.store.end_reclaim().await.unwrap();
    for file in [file, other] {
        use_without_a_name(user, file, b"behind", b"after!").await;
        user.close(file, "user").await.unwrap();
    }
    nothing_is_left(&set).await;
}
