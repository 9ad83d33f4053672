//! NFS-Ganesha, a user-space NFSv4 server of Debian, as the peer to compare with.
//!
//! What must never enter: use by the server under test. Ganesha shows how the testbed and the
//! Linux client behave with a server that is known to work.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::service::Service;
use crate::site::Site;

/// A Ganesha that exports one folder of the host, writable, with root as root, by NFSv4.1 and 4.2.
#[derive(Debug)]
pub struct Ganesha {
    service: Service,
    address: SocketAddr,
}

impl Ganesha {
    /// The path clients mount.
    pub const EXPORT: &str = "/export";

    /// Exports `directory` at [`Site::nfs_address`] and waits until the server answers.
    ///
    /// The folder must lie on a file system whose files can be opened by handle, such as ext4 or
    /// XFS; overlayfs does not support this. There is no grace period: the server serves at once.
    pub fn start(site: &Site, directory: &Path) -> Result<Self> {
        Self::start_at(site, directory, site.nfs_address())
    }

    /// [`Ganesha::start`] at another address, so that several can share a site.
    pub fn start_at(site: &Site, directory: &Path, address: SocketAddr) -> Result<Self> {
        let directory = directory
            .canonicalize()
            .with_context(|| format!("could not find {}", directory.display()))?;
        let path = directory.to_str().unwrap_or_default();
        ensure!(
            !path.is_empty() && !path.contains(['"', '\n']),
            "Ganesha cannot be configured to export {}",
            directory.display()
        );
        let name = format!("ganesha-{}", address.port());
        let folder = site.folder().join(&name);
        fs::create_dir_all(folder.join("recovery"))
            .with_context(|| format!("could not create {}", folder.display()))?;
        let file = folder.join("ganesha.conf");
        fs::write(
            &file,
            configuration(path, address, &folder.join("recovery")),
        )?;

        let mut command = site.command("ganesha.nfsd");
        command
            .arg("-F")
            .arg("-L")
            .arg("STDERR")
            .arg("-f")
            .arg(&file);
        command.arg("-p").arg(folder.join("pid"));
        let mut service = Service::start(site, &name, command)?;
        service.wait_for_nfs(address)?;
        Ok(Self { service, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process, to be killed, stopped and restarted.
    pub fn service(&mut self) -> &mut Service {
        &mut self.service
    }
}

/// Ganesha's configuration file: ganesha-core-config(8), ganesha-export-config(8).
fn configuration(directory: &str, address: SocketAddr, recovery: &Path) -> String {
    format!(
        r#"NFS_CORE_PARAM {{
    Protocols = 4;
    Bind_addr = {ip};
    NFS_Port = {port};
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Enable_UDP = false;
}}
NFSv4 {{
    Minor_Versions = 1, 2;
    Only_Numeric_Owners = true;
    Graceless = true;
    RecoveryBackend = fs;
    RecoveryRoot = "{recovery}";
}}
EXPORT {{
    Export_Id = 1;
    Path = "{directory}";
    Pseudo = "{pseudo}";
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = sys;
    FSAL {{ Name = VFS; }}
}}
"#,
        ip = address.ip(),
        port = address.port(),
        recovery = recovery.display(),
        pseudo = Ganesha::EXPORT,
    )
}
