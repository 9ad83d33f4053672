//! The Linux NFS client against NFS-Ganesha: what the testbed promises, seen with a server that is
//! known to work, so that a failure elsewhere speaks about the server under test.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use testbed::{Ganesha, Guest, Mount, Output, Requirements, Script, Signal, Site};

/// Long enough for anything that must come at all.
const SOON: Duration = Duration::from_secs(60);

/// A Ganesha with a guest that has mounted it at `/run/m`.
struct Scene {
    guest: Guest,
    ganesha: Ganesha,
    exported: PathBuf,
    site: Site,
}

impl Scene {
    /// Nothing where this machine cannot run guests.
    fn set(test: &str) -> Result<Option<Self>> {
        if !Requirements::guest().with_ganesha().admit(test)? {
            return Ok(None);
        }
        let site = Site::new()?;
        let exported = site.folder().join("exported");
        std::fs::create_dir(&exported)?;
        let ganesha = Ganesha::start(&site, &exported)?;
        let guest = Guest::boot(&site, "alpha")?;
        guest.mount(&Mount::of(ganesha.address(), Ganesha::EXPORT), "/run/m")?;
        Ok(Some(Self { guest, ganesha, exported, site }))
    }
}

fn run(guest: &Guest, script: impl Into<Script>) -> Result<Output> {
    guest.run(script)?.success()
}

#[test]
fn the_real_client_works_on_files() -> Result<()> {
    let Some(scene) = Scene::set("the real client works on files")? else { return Ok(()) };
    let guest = &scene.guest;
    let mounts = run(guest, "grep ' /run/m ' /proc/mounts")?.text();
    assert!(mounts.contains("vers=4.1") && mounts.contains(" nfs4 "), "{mounts}");

    run(guest, Script::new("mkdir a && echo one > a/f && ln a/f a/g && mv a/f h").directory("/run/m"))?;
    let exported = &scene.exported;
    assert_eq!(std::fs::read_to_string(exported.join("h"))?, "one\n");
    assert_eq!(std::fs::read_to_string(exported.join("a/g"))?, "one\n");
    std::fs::write(exported.join("from-below"), "two\n")?;
    assert_eq!(run(guest, "cat /run/m/from-below")?.text(), "two\n");

    let failed = guest.run("cat /run/m/absent; exit 7")?;
    assert_eq!((failed.code, failed.text().as_str()), (7, ""));
    assert!(failed.error_text().contains("No such file"), "{}", failed.error_text());
    scene.guest.power_off()
}
