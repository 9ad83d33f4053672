//! The testbed from the command line, for `make demo` and for manual inspection.
//!
//! What must never enter: anything a test cannot also do through the library.

mod commands;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use testbed::{
    Ganesha, Guest, GuestConfig, Mount, Requirements, Script, Service, Site, WanControl,
    host_mounts_nfs4,
};

const USAGE: &str = "\
usage: testbed requirements [--ganesha] [--names] [--wan] [--install]
           Say what this machine lacks for guests, and with --install mend it. Exit code 1 when
           something is missing.
       testbed host-client
           Exit code 0 when the machine's own kernel can mount NFSv4, else 1.
       testbed guest [OPTIONS] [--script FILE] [-- SERVER COMMAND...]
           Start the server command in a network of its own, boot the real Linux client, mount,
           run the bash script in the mounted folder with its output shown, and power off. The
           exit code is the script's. Without a script, each line of standard input is run, until
           its end (Ctrl-D) or `exit`.

options of guest:
  --place SITE         work in this site of the WAN that runs (testbed wan up), where a server may
                       run already: a server command is not needed then
  --control PATH       the WAN, where several run
  --name NAME          the guest's host name (client, or SITE-client); living clients of one server
                       need different ones
  --server ADDR:PORT   where the server listens (10.99.0.1:2049, the network's only address)
  --export PATH        what to mount (/export)
  --at PATH            where to mount it, below /run (/run/meridian)
  --version VERSION    NFS version (4.1)
  --option OPTION      one more mount option; may be repeated
  --ganesha FOLDER     serve this folder by NFS-Ganesha instead of a server command
  --lifetime SECONDS   kill the guest after this time (900; a day without a script)";

fn main() -> ExitCode {
    match command(std::env::args().skip(1)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("testbed: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn command(mut words: impl Iterator<Item = String>) -> Result<ExitCode> {
    match words.next().as_deref() {
        Some("requirements") => requirements(words),
        Some("host-client") => Ok(exit_code(host_mounts_nfs4())),
        Some("guest") => guest(&GuestArguments::parse(words)?),
        Some("wan") => commands::wan::command(words.collect()),
        Some("--help" | "-h" | "help") => {
            println!("{USAGE}\n\n{}", commands::wan::USAGE);
            Ok(ExitCode::SUCCESS)
        }
        Some(word) => bail!("there is no command '{word}'; see `testbed --help`"),
        None => bail!("a command is missing; see `testbed --help`"),
    }
}

fn requirements(words: impl Iterator<Item = String>) -> Result<ExitCode> {
    let mut requirements = Requirements::guest();
    let mut installs = false;
    for word in words {
        match word.as_str() {
            "--ganesha" => requirements = requirements.with_ganesha(),
            "--names" => requirements = requirements.with_names(),
            "--wan" => requirements = requirements.with_wan(),
            "--install" => installs = true,
            _ => bail!("`requirements` knows no '{word}'; see `testbed --help`"),
        }
    }
    if installs {
        requirements.install_missing()?;
    }
    let lacks = requirements.lacks();
    for lack in &lacks {
        println!("{lack}");
    }
    if lacks.is_empty() {
        println!("This machine has all the testbed needs.");
    }
    Ok(exit_code(lacks.is_empty()))
}

fn exit_code(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The words after `testbed guest`.
#[derive(Default)]
struct GuestArguments {
    place: Option<String>,
    control: Option<PathBuf>,
    name: Option<String>,
    server: Option<SocketAddr>,
    export: Option<String>,
    at: Option<String>,
    version: Option<String>,
    options: Vec<String>,
    ganesha: Option<PathBuf>,
    lifetime: Option<Duration>,
    script: Option<PathBuf>,
    command: Vec<String>,
}

impl GuestArguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut arguments = Self::default();
        while let Some(word) = words.next() {
            if word == "--" {
                arguments.command = words.by_ref().collect();
                break;
            }
            arguments.set(&word, words.next())?;
        }
        let servers =
            usize::from(arguments.ganesha.is_some()) + usize::from(!arguments.command.is_empty());
        if servers > 1 || servers == 0 && arguments.place.is_none() {
            bail!("give either a server command after `--` or --ganesha; see `testbed --help`");
        }
        Ok(arguments)
    }

    fn set(&mut self, word: &str, value: Option<String>) -> Result<()> {
        let value = || value.with_context(|| format!("{word} needs a value"));
        let wrong = || format!("this value will not do for {word}; see `testbed --help`");
        match word {
            "--place" => self.place = Some(value()?),
            "--control" => self.control = Some(value()?.into()),
            "--name" => self.name = Some(value()?),
            "--server" => self.server = Some(value()?.parse().with_context(wrong)?),
            "--export" => self.export = Some(value()?),
            "--at" => self.at = Some(value()?),
            "--version" => self.version = Some(value()?),
            "--option" => self.options.push(value()?),
            "--ganesha" => self.ganesha = Some(value()?.into()),
            "--lifetime" => {
                let seconds = value()?.parse().with_context(wrong)?;
                self.lifetime = Some(Duration::from_secs(seconds));
            }
            "--script" => self.script = Some(value()?.into()),
            _ => bail!("`guest` knows no '{word}'; see `testbed --help`"),
        }
        Ok(())
    }

    fn script_text(&self) -> Result<Option<String>> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path)
                .with_context(|| format!("could not read {}", path.display()))
        };
        self.script.as_ref().map(read).transpose()
    }

    /// A site of its own, or one of a WAN.
    fn site(&self) -> Result<Site> {
        let Some(place) = &self.place else {
            return Site::new();
        };
        let control = self.control.as_ref();
        let control = control.map_or_else(WanControl::find, |path| Ok(WanControl::at(path)));
        control?.site(place)
    }

    fn guest_name(&self) -> String {
        match (&self.name, &self.place) {
            (Some(name), _) => name.clone(),
            (None, Some(place)) => format!("{place}-client"),
            (None, None) => "client".into(),
        }
    }

    fn mount(&self, server: SocketAddr) -> Mount {
        let export = self.export.as_deref().unwrap_or(Ganesha::EXPORT);
        let mut mount = Mount::of(server, export);
        if let Some(version) = &self.version {
            mount = mount.version(version);
        }
        self.options
            .iter()
            .fold(mount, |mount, option| mount.option(option))
    }

    fn config(&self) -> GuestConfig {
        let usual = GuestConfig::default();
        // A person who types needs time.
        let lifetime = match self.script {
            Some(_) => usual.lifetime,
            None => Duration::from_secs(86_400),
        };
        GuestConfig {
            lifetime: self.lifetime.unwrap_or(lifetime),
            ..usual
        }
    }
}

/// Keeps the server running while this value lives.
enum Server {
    Ganesha { _server: Ganesha },
    Command { _server: Service },
    Elsewhere,
}

impl Server {
    fn start(site: &Site, arguments: &GuestArguments, address: SocketAddr) -> Result<Self> {
        if let Some(folder) = &arguments.ganesha {
            return Ok(Self::Ganesha {
                _server: Ganesha::start_at(site, folder, address)?,
            });
        }
        let Some((program, words)) = arguments.command.split_first() else {
            return Ok(Self::Elsewhere);
        };
        let mut command = site.command(program);
        command.args(words);
        let mut server = Service::start(site, "server", command)?;
        server.wait_for_nfs(address)?;
        Ok(Self::Command { _server: server })
    }
}

fn guest(arguments: &GuestArguments) -> Result<ExitCode> {
    let script = arguments.script_text()?;
    let lacks = Requirements::guest().lacks();
    if let Some(lack) = lacks.first() {
        bail!("{lack}; `testbed requirements` lists everything that is missing");
    }
    let site = arguments.site()?;
    let address = arguments.server.unwrap_or_else(|| site.nfs_address());
    let _server = Server::start(&site, arguments, address)?;

    let guest = Guest::boot_with(&site, &arguments.guest_name(), &arguments.config())?;
    let at = arguments.at.as_deref().unwrap_or("/run/meridian");
    guest.mount(&arguments.mount(address), at)?;
    let code = match script {
        Some(script) => {
            let job = guest.start(Script::new(script).directory(at))?;
            job.follow(&mut io::stdout().lock(), &mut io::stderr().lock())?
        }
        None => commands::shell::shell(&guest, at)?,
    };
    guest.power_off()?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
