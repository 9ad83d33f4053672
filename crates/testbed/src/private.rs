//! Commands with private files in place of some files of the machine. So servers that need fixed
//! folders, such as `/var/lib/glusterd`, can run several times on one machine.
//!
//! `ip netns exec` gives every command its own mount name space, in which other files are bound over
//! the machine's. Nothing of that is visible outside, and it ends with the command.
//!
//! What must never enter: the needs of single programs.

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

/// Files that a command sees in place of the machine's files.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrivateFiles {
    /// The source and the path where it is seen.
    pairs: Vec<(PathBuf, PathBuf)>,
}

impl PrivateFiles {
    /// A list of hosts with every place of a world by its name, in place of `/etc/hosts`. Servers that ask for
    /// the name of an address get it at once, as from a nearby name server.
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

    /// A new folder `own` in place of a folder of the machine, which must exist.
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

/// A path for programs that support neither spaces nor quotes.
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
