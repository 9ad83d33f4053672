//! The client of the Linux kernel at every site, with the site's export mounted: programs there read and write registers,
//! count under locks, and change names.
//!
//! They change only names that no other client changes. The kernel's client opens a name that it has looked up by its handle for a while, even if
//! the name meanwhile refers to another file.
//!
//! What must never enter: requests of the test's own clients.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use testbed::{Guest, GuestConfig, Mount, Output, Place, Script, quoted};
use tokio::task::{JoinHandle, spawn_blocking};

use super::Common;
use super::answers::{LIMIT, denied};
use super::content::{VALUE_SIZE, of_value, value_in};
use super::tree::{EXPORT, OWN};
use crate::history::{Act, Outcome, Refusal, Section, Time};
use crate::random::Random;

/// The mount point in guests.
const FOLDER: &str = "/run/m";

/// Longer than any run.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The memory of a guest with a few small files, in MiB.
const MEMORY_MIB: u32 = 256;

/// The longest pause between two programs, in milliseconds.
const PAUSE_MS_MAX: u64 = 200;

/// Adds one to a counter under a lock of the whole file, and prints how far it came. It uses one open file, so that after the loss of the lock
/// the kernel refuses later requests.
const COUNT: &str = r#"
use Fcntl qw(:flock SEEK_SET);
use IO::Handle;
$| = 1;
open(my $file, "+<", $ARGV[0]) or die "open: $!";
my $tries = 40;
until (flock($file, LOCK_EX | LOCK_NB)) {
    exit 75 if --$tries == 0;
    select(undef, undef, undef, rand(0.15));
}
sysread($file, my $content, $ARGV[1]) == $ARGV[1] or die "read: $!";
my $saw = int(substr($content, 0, 16));
print "saw $saw\n";
sysseek($file, 0, SEEK_SET) or die "seek: $!";
my $next = sprintf("%16d\n", $saw + 1) x ($ARGV[1] / 17);
syswrite($file, $next) == $ARGV[1] or die "write: $!";
$file->sync or die "sync: $!";
print "wrote\n";
select(undef, undef, undef, rand(0.03));
close($file) or die "close: $!";
"#;

/// The exit status of that program if another client had the lock all the time.
const DENIED: i32 = 75;

/// Changes names that no other client uses; each change is possible exactly once. Prints the refusals.
const ROUND: &str = r#"
use Errno;
use Fcntl;
my ($folder, $name) = @ARGV;
my $path = "$folder/$name";
sub did {
    my ($what, $done) = @_;
    return if $done;
    my $code = $!{EEXIST} || $!{ENOENT} ? 76 : 1;
    print STDERR "$what: $!\n";
    exit $code;
}
did("create", sysopen(my $file, $path, O_CREAT | O_EXCL | O_WRONLY));
close($file);
did("link", link($path, "$path-link"));
did("rename", rename($path, "$path-new"));
did("mkdir", mkdir("$path-folder"));
did("symlink", symlink($name, "$path-symlink"));
did("move", rename("$path-new", "$path-folder/$name"));
did("remove", unlink("$path-symlink"));
did("remove a link", unlink("$path-link"));
did("remove the last name", unlink("$path-folder/$name"));
did("rmdir", rmdir("$path-folder"));
"#;

/// The exit status of that program if its own change was refused because it had already happened.
const REPEATED: i32 = 76;

/// A kernel with the export of its site mounted.
#[derive(Debug)]
pub struct Kernel {
    guest: Guest,
    site: usize,
}

impl Kernel {
    /// Boots a kernel at every site.
    ///
    /// # Errors
    /// Fails if a kernel does not boot, or cannot mount.
    pub fn at_all(places: &[Place]) -> Result<Vec<Kernel>> {
        let config = GuestConfig {
            memory_mib: MEMORY_MIB,
            lifetime: LIFETIME,
        };
        let sites = places.iter().enumerate();
        let booted = sites.map(|(site, place)| {
            let name = format!("{}-kernel", place.name());
            let guest = Guest::boot_with(place.site(), &name, &config)?;
            guest.mount(&Mount::of(place.nfs_address(), EXPORT), FOLDER)?;
            Ok(Kernel { guest, site })
        });
        booted.collect()
    }
}

/// Runs programs in every guest. They are numbered from `first`, and end when [`Common::done`] is set.
pub fn employ(common: &Arc<Common>, kernels: Vec<Kernel>, first: usize) -> Vec<JoinHandle<()>> {
    let numbered = kernels.into_iter().zip(first..);
    let workers = numbered.map(|(Kernel { guest, site }, number)| Worker {
        common: Arc::clone(common),
        guest,
        site,
        number,
        random: Random::new(common.seed, 1000 + number as u64),
    });
    workers
        .map(|worker| spawn_blocking(move || worker.work()))
        .collect()
}

/// The programs of one guest, one after the other.
struct Worker {
    common: Arc<Common>,
    guest: Guest,
    site: usize,
    number: usize,
    random: Random,
}

impl Worker {
    fn work(mut self) {
        while !self.common.is_done() {
            let pause = self.random.below(PAUSE_MS_MAX);
            std::thread::sleep(Duration::from_millis(pause));
            let register = self.random.below(self.common.tree.registers.len() as u64) as usize;
            match self.random.below(8) {
                0 | 1 => self.write(register),
                2 => self.count(),
                3 | 4 => self.round(),
                _ => self.read(register),
            }
        }
        // A mount that hangs shows as a client that does not finish.
        if let Err(error) = self.guest.power_off() {
            eprintln!("nemesis: a guest does not go in good order: {error:#}");
        }
    }

    fn read(&self, register: usize) {
        let path = &self.common.tree.registers[register].path;
        let begin = self.now();
        let (saw, outcome) = match self.run(format!("cat {FOLDER}/{path}")) {
            Ok(content) => (Some(value_in(&content)), Outcome::Done),
            Err(why) => (None, Outcome::Unknown(why)),
        };
        self.record(begin, Act::Read { register, saw }, outcome);
    }

    /// The program overwrites the content and closes the file; then the content is at the server.
    fn write(&mut self, register: usize) {
        let value = self.common.fresh_value();
        let (path, draft) = (
            &self.common.tree.registers[register].path,
            format!("value-{value}"),
        );
        if let Err(error) = fs::write(self.guest.shared().join(&draft), of_value(value)) {
            return eprintln!("nemesis: nothing is written: {error}");
        }
        let how = match self.random.below(2) {
            0 => "notrunc,nocreat",
            _ => "notrunc,nocreat,fsync",
        };
        let (from, to) = (
            quoted(&format!("{}/{draft}", Guest::SHARED)),
            quoted(&format!("{FOLDER}/{path}")),
        );
        let begin = self.now();
        let script = format!("dd if={from} of={to} bs={VALUE_SIZE} conv={how} status=none");
        let outcome = match self.run(script) {
            Ok(_) => Outcome::Done,
            Err(why) => Outcome::Unknown(why),
        };
        self.record(begin, Act::Write { register, value }, outcome);
    }

    /// The times of the lock are not known here, only the values read and written under it.
    fn count(&mut self) {
        let counter = self.random.below(self.common.tree.counters.len() as u64) as usize;
        let path = format!("{FOLDER}/{}", self.common.tree.counters[counter].path);
        let (program, path) = (quoted(COUNT), quoted(&path));
        let script = format!("perl -e {program} {path} {VALUE_SIZE}");
        let begin = self.now();
        let (said, outcome) = match self.guest.run(Script::new(script).within(LIMIT)) {
            Ok(output) => {
                let why = output.error_text().trim().to_owned();
                let outcome = match output.code {
                    0 => Outcome::Done,
                    DENIED => denied(),
                    _ => Outcome::Unknown(why),
                };
                (
                    String::from_utf8_lossy(&output.stdout).into_owned(),
                    outcome,
                )
            }
            Err(error) => (String::new(), Outcome::Unknown(format!("{error:#}"))),
        };
        let mut lines = said.lines();
        let saw = lines.next().and_then(|line| line.strip_prefix("saw "));
        let saw: Option<u64> = saw.and_then(|number| number.parse().ok());
        let section = Section {
            counter,
            asked: begin,
            granted: saw.map(|_| begin),
            held_until: begin,
            saw,
            wrote: saw
                .filter(|_| lines.next() == Some("wrote"))
                .map(|saw| saw + 1),
        };
        self.record(begin, Act::Section(section), outcome);
    }

    fn round(&self) {
        let name = self.common.fresh_value();
        let (program, folder) = (quoted(ROUND), quoted(&format!("{FOLDER}/{OWN}")));
        let script = format!("perl -e {program} {folder} round-{name}");
        let begin = self.now();
        let outcome = match self.guest.run(Script::new(script).within(LIMIT)) {
            Ok(Output { code: 0, .. }) => Outcome::Done,
            Ok(failed) => {
                let why = failed.error_text().trim().to_owned();
                match failed.code {
                    REPEATED => Outcome::Refused(Refusal::Other(why)),
                    _ => Outcome::Unknown(why),
                }
            }
            Err(error) => Outcome::Unknown(format!("{error:#}")),
        };
        self.record(begin, Act::Round { name }, outcome);
    }

    /// The output of a script that succeeds.
    fn run(&self, script: String) -> Result<Vec<u8>, String> {
        match self.guest.run(Script::new(script).within(LIMIT)) {
            Ok(Output {
                code: 0, stdout, ..
            }) => Ok(stdout),
            Ok(failed) => Err(failed.error_text().trim().to_owned()),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    fn now(&self) -> Time {
        self.common.recorder.now()
    }

    fn record(&self, begin: Time, act: Act, outcome: Outcome) {
        let who = (self.site, self.number);
        self.common.record(who, begin, act, outcome);
    }
}
