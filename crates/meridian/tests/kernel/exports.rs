//! Who may mount what, and how several exports appear.

use anyhow::Result;
use testbed::{Guest, Mount, Script};

use crate::scene::{LONG_LEASE, MOUNT, OPEN_EXPORT, Scene, run};

/// The first two guests of a site have these addresses.
const RULES: &str = "
[[export]]
path = \"/export\"
[[export.allow]]
clients = \"10.99.1.2\"
squash = \"none\"
[[export.allow]]
clients = \"10.99.2.0/24\"
mode = \"ro\"

[[export]]
path = \"/squashed\"
tree = \"squashed\"
[[export.allow]]
clients = \"10.99.1.2\"
squash = \"all\"
anonymous_user = 1234
anonymous_group = 1235
[[export.allow]]
clients = \"10.99.2.2\"
squash = \"root\"
";

fn fails(guest: &Guest, script: impl Into<Script>, complaint: &str) -> Result<()> {
    let output = guest.run(script)?;
    let said = output.error_text();
    assert!(
        output.code != 0 && said.contains(complaint),
        "{} {said}",
        output.code
    );
    Ok(())
}

pub fn clients_by_address_are_refused_read_only_or_squashed() -> Result<()> {
    let scene = Scene::with(&[RULES, LONG_LEASE])?;
    let one = scene.guest("alpha")?;
    let two = Guest::boot(&scene.site, "beta")?;
    let three = Guest::boot(&scene.site, "gamma")?;
    let squashed = Mount::of(scene.listen, "/squashed");

    run(
        &one,
        "cd /run/m && echo one > f && chown 5:6 f && stat -c '%u %g' f",
    )?;
    two.mount(&scene.mount(), MOUNT)?;
    assert_eq!(run(&two, "cat /run/m/f")?.text(), "one\n");
    for change in [
        "echo two > f",
        "touch new",
        "rm f",
        "mkdir d",
        "mv f g",
        "chmod 777 f",
    ] {
        fails(
            &two,
            Script::new(change).directory(MOUNT),
            "Read-only file system",
        )?;
    }
    let refused = three.try_mount(&scene.mount(), MOUNT)?;
    assert_ne!(
        refused.code, 0,
        "a client without a rule has mounted the export"
    );

    one.mount(&squashed, "/run/s")?;
    two.mount(&squashed, "/run/s")?;
    let owner = |name: &str| format!("touch /run/s/{name} && stat -c '%u %g' /run/s/{name}");
    assert_eq!(run(&one, owner("root"))?.text(), "1234 1235\n");
    let user = Script::new(owner("user")).user(1000, 1000);
    assert_eq!(run(&one, user)?.text(), "1234 1235\n");
    assert_eq!(run(&two, owner("nobody"))?.text(), "65534 65534\n");
    let user = Script::new(owner("himself")).user(1000, 1000);
    assert_eq!(run(&two, user)?.text(), "1000 1000\n");
    fails(&two, "chown 5 /run/s/nobody", "Operation not permitted")?;
    fails(&two, "echo root > /run/s/himself", "Permission denied")?;

    for guest in [one, two, three] {
        guest.power_off()?;
    }
    Ok(())
}

pub fn two_exports_share_one_name_space() -> Result<()> {
    let second = "
[[export]]
path = \"/projects/deep\"
tree = \"projects\"
[[export.allow]]
clients = \"*\"
squash = \"none\"
";
    let scene = Scene::with(&[OPEN_EXPORT, second, LONG_LEASE])?;
    let guest = scene.guest_with("alpha", &Mount::of(scene.listen, "/"))?;
    assert_eq!(
        run(&guest, "ls /run/m /run/m/projects | xargs")?
            .text()
            .trim(),
        "/run/m: export projects /run/m/projects: deep"
    );
    fails(&guest, "touch /run/m/new", "Read-only file system")?;
    fails(&guest, "mkdir /run/m/projects/new", "Read-only file system")?;
    run(
        &guest,
        "cd /run/m && echo a > export/f && echo b > projects/deep/f",
    )?;
    fails(
        &guest,
        "ln /run/m/export/f /run/m/projects/deep/g",
        "Invalid cross-device link",
    )?;
    // `mv` copies when rename says EXDEV.
    run(&guest, "cd /run/m && mv export/f projects/deep/moved")?;
    assert_eq!(
        run(&guest, "cd /run/m && cat projects/deep/*")?.text(),
        "b\na\n"
    );
    let devices = run(
        &guest,
        "cd /run/m && stat -c %d . export projects/deep | sort -u | wc -l",
    )?;
    assert_eq!(
        devices.text().trim(),
        "3",
        "each export is a file system of its own"
    );
    run(
        &guest,
        "cd /run/m/projects/deep/.. && [ $(ls) = deep ] && cd .. && ls export",
    )?;
    guest.mount(&Mount::of(scene.listen, "/projects/deep"), "/run/deep")?;
    assert_eq!(run(&guest, "cat /run/deep/moved")?.text(), "a\n");
    let absent = guest.try_mount(&Mount::of(scene.listen, "/absent"), "/run/absent")?;
    assert_ne!(absent.code, 0);
    guest.power_off()
}
