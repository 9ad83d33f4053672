//! A server whose time of day jumps while it runs, and between its starts: what clients hold stands, what they wrote is there, and no
//! change looks like an earlier one.

use std::time::Duration;

use crate::fixture::site::block_on;
use crate::fixture::{Place, Running, run};
use bytes::Bytes;
use nemesis::world::clock::{Clock, Jumps};
use nfs4::{Attributes4, NfsLockType4};
use nfs4_client::{Client, How, LockAnswer, OpenFile, Options};

const HOUR: i64 = 3600;
const YEAR: i64 = 365 * 24 * HOUR;

/// How far the time of day is off, one after the other: a little back, as after a correction; far ahead, as by a wrong battery; to the seventies, as
/// without one; beyond what 32 bits hold.
const JUMPS: [i64; 6] = [HOUR, -HOUR, 10 * YEAR, -50 * YEAR, 200 * YEAR, 0];

/// Shorter than the test, which renews in between.
const SETTINGS: &str = "[time]\nlease_seconds = 2\n";

struct Scene {
    place: Place,
    jumps: Jumps,
}

impl Scene {
    fn new() -> Scene {
        let place = Place::new(SETTINGS);
        let jumps = Jumps::in_folder(place.directory.path()).unwrap();
        Scene { place, jumps }
    }

    fn start(&self) -> Running {
        let folder = self.place.directory.path();
        let environment = Clock::True.environment(folder, Some(&self.jumps)).unwrap();
        self.place
            .start_command(self.place.serve().envs(environment))
    }
}

async fn connect(server: &Running) -> Client {
    let options = Options {
        renewal: Some(Duration::from_millis(500)),
        ..Options::at(server.address)
    };
    Client::connect(options).await.unwrap()
}

async fn lock(client: &Client, file: &OpenFile) -> LockAnswer {
    let locked = client.lock(file, "locker", NfsLockType4::Write, 0, 10);
    locked.await.unwrap()
}

fn change(attributes: &Attributes4) -> u64 {
    attributes.change.unwrap()
}

/// Leases are measured by a clock that nobody sets: who has a file open and locked keeps it, and others do not get it.
#[test]
fn what_a_client_holds_stands_whatever_the_time_of_day_does() {
    let scene = Scene::new();
    let server = scene.start();
    block_on(async {
        let (holder, other) = (connect(&server).await, connect(&server).await);
        let root = holder.mount("/export").await.unwrap();
        let how = How::create(0o644);
        let file = holder.open(&root, "file", &how).await.unwrap();
        let LockAnswer::Granted(held) = lock(&holder, &file).await else {
            panic!("nobody else has locked it");
        };
        let others = other.open(&root, "file", &how).await.unwrap();
        let mut before = holder.stat(&file.handle).await.unwrap();
        for (number, seconds) in (0u64..).zip(JUMPS) {
            scene.jumps.set(seconds).unwrap();
            // Longer than the lease, which is renewed meanwhile.
            tokio::time::sleep(Duration::from_secs(3)).await;
            let bytes = Bytes::from(vec![number as u8 + 1; 100]);
            let written = holder.write_all(&file, number * 100, &bytes).await;
            written.unwrap_or_else(|error| panic!("{seconds} s: {error}"));
            let refused = lock(&other, &others).await;
            assert!(matches!(refused, LockAnswer::Denied(_)), "{seconds} s");
            let after = holder.stat(&file.handle).await.unwrap();
            assert!(change(&after) > change(&before), "{seconds} s");
            before = after;
        }
        holder.unlock(&held, 0, 10).await.unwrap();
        let granted = lock(&other, &others).await;
        assert!(matches!(granted, LockAnswer::Granted(_)), "{granted:?}");
        let bytes = holder.read_to_end(&file).await.unwrap();
        assert_eq!(bytes.len(), JUMPS.len() * 100);
    });
    server.stop();
}

/// A clock that was corrected by an hour made a file older that was written a moment ago.
#[test]
fn times_of_a_file_do_not_go_back_with_the_clock() {
    let scene = Scene::new();
    let server = scene.start();
    block_on(async {
        let client = connect(&server).await;
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, "file", &How::create(0o644)).await;
        let file = file.unwrap();
        let mut before = client.stat(&file.handle).await.unwrap();
        let mut above = client.stat(&root).await.unwrap();
        for (number, seconds) in (0u64..).zip([HOUR, 0, 20 * HOUR, -HOUR]) {
            scene.jumps.set(seconds).unwrap();
            let bytes = Bytes::from_static(b"text");
            client.write_all(&file, 0, &bytes).await.unwrap();
            client.commit(&file.handle, 0, 0).await.unwrap();
            let name = format!("d{number}");
            let made = client.create_directory(&root, name.as_str(), 0o755);
            made.await.unwrap();
            let after = client.stat(&file.handle).await.unwrap();
            let times = |of: &Attributes4| (of.time_modify, of.time_metadata);
            let (then, now) = (times(&before), times(&after));
            assert!(
                now.0 > then.0 && now.1 > then.1,
                "{seconds} s: {then:?}, {now:?}"
            );
            let above_now = client.stat(&root).await.unwrap();
            assert!(above_now.time_modify > above.time_modify, "{seconds} s");
            (before, above) = (after, above_now);
        }
    });
    server.stop();
}

/// Numbers that a start hands out are not those of an earlier one, and what was answered is there.
#[test]
fn a_server_that_starts_at_another_time_of_day_is_whole_and_knows_nothing_of_earlier_sessions() {
    let scene = Scene::new();
    let mut sessions = Vec::new();
    let mut last_change = 0;
    for (number, seconds) in (0..).zip(JUMPS) {
        scene.jumps.set(seconds).unwrap();
        let server = scene.start();
        let (session, change) = block_on(async {
            let client = connect(&server).await;
            let root = client.mount("/export").await.unwrap();
            for earlier in 0..number {
                let name = format!("file-{earlier}");
                let file = client.open(&root, name.as_str(), &How::read()).await;
                let file = file.unwrap_or_else(|error| panic!("{name} after {seconds} s: {error}"));
                assert_eq!(client.read_to_end(&file).await.unwrap(), name.as_bytes());
                client.close(&file).await.unwrap();
            }
            let name = format!("file-{number}");
            let how = How::create_new(0o644);
            let file = client.open(&root, name.as_str(), &how).await.unwrap();
            let bytes = Bytes::from(name.into_bytes());
            client.write_all(&file, 0, &bytes).await.unwrap();
            client.commit(&file.handle, 0, 0).await.unwrap();
            client.close(&file).await.unwrap();
            let above = client.stat(&root).await.unwrap();
            let session = client.session().id();
            client.leave().await.unwrap();
            (session, above.change.unwrap())
        });
        assert!(!sessions.contains(&session), "{seconds} s");
        assert!(change > last_change, "{seconds} s");
        sessions.push(session);
        last_change = change;
        server.kill();
    }
    let checked = run(&["check", "--data", scene.place.data().to_str().unwrap()]);
    assert!(checked.status.success(), "{checked:?}");
}
