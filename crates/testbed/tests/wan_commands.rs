//! `testbed wan` from the outside: a separate process, obeyed commands, and nothing left behind.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, kill_process};
use testbed::{Ganesha, Requirements, Signal, WanControl};

/// Long enough for anything that must come at all.
const SOON: Duration = Duration::from_secs(60);

/// A `testbed wan up` that is ready.
struct Running {
    process: Child,
    control: PathBuf,
    namespaces: Vec<PathBuf>,
}

impl Running {
    /// Nothing if this machine cannot run a WAN.
    fn start(test: &str, options: &[&str]) -> Result<Option<Self>> {
        if !Requirements::site().with_wan().admit(test)? {
            return Ok(None);
        }
        let mut process = Command::new(env!("CARGO_BIN_EXE_testbed"))
            .args(["wan", "up", "--sites", "paris,oslo"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(process.stdout.take().context("it is piped")?).lines();
        let lines: Vec<String> = lines
            .take_while(|line| line.as_ref().is_ok_and(|line| line != "ready"))
            .collect::<std::io::Result<_>>()?;
        let [paris, oslo, control] = &lines[..] else {
            anyhow::bail!("it said {lines:?}");
        };
        ensure!(paris.starts_with("paris 10.200.1.1 "), "{paris}");
        ensure!(oslo.starts_with("oslo 10.200.2.1 "), "{oslo}");
        let namespace = |line: &String| {
            let name = line.split(' ').nth(2).context("the namespace is missing")?;
            anyhow::Ok(PathBuf::from("/run/netns").join(name))
        };
        Ok(Some(Self {
            control: control.trim_start_matches("control ").into(),
            namespaces: vec![namespace(paris)?, namespace(oslo)?],
            process,
        }))
    }

    fn command(&self, words: &[&str]) -> Result<Output> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
        command.args(["wan", "--control"]).arg(&self.control);
        Ok(command.args(words).output()?)
    }

    /// The output of a command that must succeed.
    fn tell(&self, words: &[&str]) -> Result<String> {
        let output = self.command(words)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{words:?}: {complaint}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The words in the line of `show` about the direction from one site to the other.
    fn link(&self, from: &str, to: &str) -> Result<Vec<String>> {
        let table = self.tell(&["show"])?;
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let mut lines = table.lines().map(words);
        let found = lines.find(|words| words[0] == from && words[1] == to);
        found.with_context(|| format!("no such line in:\n{table}"))
    }

    /// Waits until nothing of the WAN is left.
    fn vanish(mut self) -> Result<()> {
        self.process.wait()?;
        let started = Instant::now();
        while self.namespaces.iter().any(|namespace| namespace.exists()) {
            ensure!(started.elapsed() < SOON, "namespaces stay");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

#[test]
fn a_running_wan_obeys_commands_and_ends_with_its_input() -> Result<()> {
    let options = ["--delay", "1ms", "--until-eof"];
    let Some(mut wan) = Running::start("a running WAN obeys commands", &options)? else {
        return Ok(());
    };
    assert_eq!(wan.link("paris", "oslo")?[2..5], ["up", "1ms", "0ms"]);
    wan.tell(&[
        "set",
        "paris",
        "oslo",
        "--loss",
        "50%",
        "--bandwidth",
        "10mbit",
    ])?;
    assert_eq!(
        wan.link("oslo", "paris")?[2..7],
        ["up", "1ms", "0ms", "50%", "10mbit"]
    );
    wan.tell(&["set", "paris", "oslo", "--one-way", "--loss", "0"])?;
    assert_eq!(wan.link("paris", "oslo")?[5], "0%");
    assert_eq!(wan.link("oslo", "paris")?[5], "50%");

    wan.tell(&["cut", "oslo", "paris", "--one-way"])?;
    assert_eq!(wan.link("oslo", "paris")?[2], "cut");
    assert_eq!(wan.link("paris", "oslo")?[2], "up");
    wan.tell(&["partition", "oslo"])?;
    assert_eq!(wan.link("paris", "oslo")?[2], "cut");
    wan.tell(&["heal"])?;
    assert_eq!(wan.link("oslo", "paris")?[2], "up");

    let addresses = wan.tell(&["exec", "oslo", "ip", "-o", "addr", "show", "wan0"])?;
    assert!(addresses.contains("10.200.2.1/16"), "{addresses}");
    wan.tell(&["set", "paris", "oslo", "--loss", "0"])?;
    let pinged = wan.tell(&["ping", "paris", "oslo"])?;
    assert!(
        pinged.starts_with("paris to oslo and back: least "),
        "{pinged}"
    );
    assert_eq!(wan.link("oslo", "paris")?[7], "10", "packets that crossed");
    let refused = wan.command(&["cut", "paris", "rome"])?;
    assert_eq!(refused.status.code(), Some(2));
    let complaint = String::from_utf8(refused.stderr)?;
    assert!(complaint.contains("no site 'rome'"), "{complaint}");

    drop(wan.process.stdin.take());
    assert!(wan.process.wait()?.success());
    assert!(!wan.control.exists());
    wan.vanish()
}

#[test]
fn ctrl_c_removes_logs_too() -> Result<()> {
    let Some(mut wan) = Running::start("Ctrl-C ends a WAN", &[])? else {
        return Ok(());
    };
    kill_process(Pid::from_child(&wan.process), Signal::INT)?;
    assert!(wan.process.wait()?.success());
    assert!(!wan.control.with_file_name("").exists());
    wan.vanish()
}

#[test]
fn a_guest_works_in_a_site_of_a_running_wan() -> Result<()> {
    let test = "a guest works in a site of a running WAN";
    if !Requirements::guest().with_ganesha().admit(test)? {
        return Ok(());
    }
    let Some(mut wan) = Running::start(test, &["--until-eof"])? else {
        return Ok(());
    };
    let paris = WanControl::at(&wan.control).site("paris")?;
    let exported = paris.folder().join("exported");
    std::fs::create_dir(&exported)?;
    let server = Ganesha::start_at(&paris, &exported, "10.200.1.1:2049".parse()?)?;
    let script = paris.folder().join("script");
    std::fs::write(&script, "hostname > from")?;
    let guest = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["guest", "--place", "oslo", "--control"])
        .arg(&wan.control)
        .args(["--server", "10.200.1.1:2049", "--script"])
        .arg(&script)
        .output()?;
    let complaint = String::from_utf8_lossy(&guest.stderr);
    assert!(guest.status.success(), "{complaint}");
    assert_eq!(
        std::fs::read_to_string(exported.join("from"))?,
        "oslo-client\n"
    );
    assert_ne!(wan.link("oslo", "paris")?[7], "0", "packets that crossed");

    drop((server, paris));
    drop(wan.process.stdin.take());
    wan.vanish()
}

#[test]
fn a_killed_wan_leaves_no_network_and_no_process_behind() -> Result<()> {
    let Some(mut wan) = Running::start("a killed WAN leaves nothing behind", &[])? else {
        return Ok(());
    };
    let mut inside = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["wan", "--control"])
        .arg(&wan.control)
        .args(["exec", "paris", "sh", "-c", "echo begun; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut begun = [0; 6];
    inside
        .stdout
        .as_mut()
        .context("it is piped")?
        .read_exact(&mut begun)?;
    wan.process.kill()?;
    let folder = wan
        .control
        .parent()
        .context("the socket lies in a folder")?
        .to_owned();
    let others = wan.namespaces[1]
        .file_name()
        .map(|name| folder.with_file_name(name));
    wan.vanish()?;
    assert!(!inside.wait()?.success(), "it was killed with its site");
    std::fs::remove_dir_all(folder)?;
    std::fs::remove_dir_all(others.context("a namespace has a name")?)?;
    Ok(())
}
