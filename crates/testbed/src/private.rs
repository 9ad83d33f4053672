//! Commands that see files of their own in place of some of the machine's: servers that insist on fixed
//! folders, such as `/var/lib/glusterd`, run several times on one machine that way.
//!
//! `ip netns exec` gives every command a mount name space of its own, in which other files are bound over
//! the machine's. Nothing of that is seen outside, and it is gone with the command.
//!
//! What must never enter: which program wants what.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::world::{Place, World};

/// Binds pairs of paths, the second over the first, and becomes the command after `--`.
const BIND: &str = r#"
while [ "$1" != -- ]; do
    mount --bind "$1" "$2" || exit 126
    shift 2
done
shift
exec "$@"
"#;

/// Files that a command sees in place of the machine's.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrivateFiles {
    /// What is seen, and where.
    pairs: Vec<(PathBuf, PathBuf)>,
}

impl PrivateFiles {
    /// A list of hosts with every place of a world by its name, in place of `/etc/hosts`. Servers that ask for
    /// the name of an address are answered at once, as they would be by a name server near by.
    pub(crate) fn hosts(world: &World, place: &Place) -> Result<Self> {
        let mut text = String::from("127.0.0.1 localhost\n");
        for other in world.places() {
            text += &format!("{} {}\n", other.address(), other.name());
        }
        let file = place.site().folder().join("hosts");
        fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
        Ok(Self {
            pairs: vec![(file, "/etc/hosts".into())],
        })
    }

    /// A new folder `own` in place of a folder of the machine, which must be there.
    pub(crate) fn folder(mut self, own: PathBuf, place: impl Into<PathBuf>) -> Result<Self> {
        fs::create_dir_all(&own).with_context(|| format!("could not create {}", own.display()))?;
        self.pairs.push((own, place.into()));
        Ok(self)
    }

    /// A command in a place that sees these files.
    pub(crate) fn command(&self, place: &Place, program: impl AsRef<OsStr>) -> Command {
        let mut command = place.command("sh");
        command.args(["-c", BIND, "bind"]);
        for (own, over) in &self.pairs {
            command.args([own, over]);
        }
        command.arg("--").arg(program);
        command
    }
}

/// A path as programs take it that know neither spaces nor quotes.
pub(crate) fn plain(path: &Path) -> Result<&str> {
    let text = path.to_str().filter(|text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
        text.starts_with('/') && text.bytes().all(is_plain)
    });
    text.with_context(|| format!("{} is not a plain absolute path", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_taken() {
        assert_eq!(plain(Path::new("/a/b-1.c")).unwrap(), "/a/b-1.c");
        for path in ["relative", "/with space", "/quo\"te", "/x%41"] {
            assert!(plain(Path::new(path)).is_err(), "{path}");
        }
    }
}
