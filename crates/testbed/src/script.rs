//! The scripts in a guest, and their results.
//!
//! What must never enter: how scripts get to the guest; see `channel`.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};

/// The default time limit of a script. It only detects hangs and does not judge speed: in a guest the same
/// work may take twice as long in the next run.
const PATIENCE: Duration = Duration::from_secs(120);

/// A bash script for a guest, with its user and environment.
///
/// It starts as root in `/` with `PATH`, `HOME`, `TMPDIR` (a tmpfs) and `LANG` set. A plain string
/// is a script too.
#[derive(Clone, Debug)]
pub struct Script {
    body: String,
    user: Option<User>,
    directory: Option<String>,
    environment: Vec<(String, String)>,
    patience: Duration,
}

/// The identity that reaches the server as an AUTH_SYS credential.
#[derive(Clone, Debug)]
struct User {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Script {
    /// A script in bash. It does not stop at the first failing command unless it contains
    /// `set -e`; its exit code is that of the last command.
    pub fn new(body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            user: None,
            directory: None,
            environment: Vec::new(),
            patience: PATIENCE,
        }
    }

    /// One program with its arguments, which the shell does not interpret. Since the guest sees the
    /// host's files, this may be a test's own binary with its path on the host.
    pub fn program<A: AsRef<str>>(
        path: impl AsRef<str>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut body = format!("exec {}", quoted(path.as_ref()));
        for argument in arguments {
            body.push(' ');
            body.push_str(&quoted(argument.as_ref()));
        }
        Self::new(body)
    }

    /// Runs as this user and group, without supplementary groups and without capabilities.
    pub fn user(mut self, uid: u32, gid: u32) -> Self {
        self.user = Some(User {
            uid,
            gid,
            groups: Vec::new(),
        });
        self
    }

    /// Adds supplementary groups to the user of [`Script::user`]; without a user, root gets
    /// them.
    pub fn groups(mut self, groups: &[u32]) -> Self {
        let user = self.user.get_or_insert(User {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        });
        user.groups = groups.to_vec();
        self
    }

    /// Starts in this folder of the guest.
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets an environment variable.
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Kills the script and fails when it runs longer than this.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// The text of the script, for messages.
    pub(crate) fn body(&self) -> &str {
        &self.body
    }

    /// The text that the guest's process 1 reads in its own subshell, for the cheapest start. A script
    /// of another user is `inner`, a second file that this one executes under that identity.
    pub(crate) fn files(&self, inner: &str) -> (String, Option<String>) {
        let text = self.text();
        let Some(User { uid, gid, groups }) = &self.user else {
            return (text, None);
        };
        let groups = if groups.is_empty() {
            "--clear-groups".to_owned()
        } else {
            let list: Vec<String> = groups.iter().map(u32::to_string).collect();
            format!("--groups={}", list.join(","))
        };
        let outer = format!("exec setpriv --reuid={uid} --regid={gid} {groups} -- bash {inner}\n");
        (outer, Some(text))
    }

    /// Sets the environment and the folder under the user's own identity, because the server may
    /// deny root what it grants the user.
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.environment {
            let _ = writeln!(text, "export {name}={}", quoted(value));
        }
        if let Some(directory) = &self.directory {
            let _ = writeln!(text, "cd {} || exit 126", quoted(directory));
        }
        text.push_str(&self.body);
        text.push('\n');
        text
    }
}

impl From<&str> for Script {
    fn from(body: &str) -> Self {
        Self::new(body)
    }
}

impl From<String> for Script {
    fn from(body: String) -> Self {
        Self::new(body)
    }
}

impl From<&Script> for Script {
    fn from(script: &Script) -> Self {
        script.clone()
    }
}

/// One word of the shell that means exactly these characters.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The result of a script.
#[derive(Clone, Debug)]
pub struct Output {
    /// The script, for messages.
    pub script: String,
    /// The exit code of bash: 128 plus the signal's number if a signal ended the script.
    pub code: i32,
    /// The bytes written to standard output.
    pub stdout: Vec<u8>,
    /// The bytes written to standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// This output, if the exit code is zero.
    ///
    /// # Errors
    /// Otherwise an error with the script and all its output.
    pub fn success(self) -> Result<Self> {
        if self.code == 0 {
            return Ok(self);
        }
        bail!(
            "the guest's script ended with {}\n-- script --\n{}\n-- output --\n{}\n-- errors --\n{}",
            self.code,
            self.script,
            self.text().trim_end(),
            self.error_text().trim_end()
        )
    }

    /// Standard output as text; bytes that are not UTF-8 appear as U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text, in the same way.
    pub fn error_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_survives_the_shell() {
        let awkward = "it's $HOME `id` \"x\" \\ *\n";
        let script = format!("printf %s {}", quoted(awkward));
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .output()
            .unwrap();
        assert_eq!(output.stdout, awkward.as_bytes());
    }

    #[test]
    fn another_user_enters_the_folder_itself() {
        let script = Script::new("id")
            .user(1000, 1001)
            .groups(&[5, 6])
            .directory("/run/m");
        let (outer, inner) = script.files("/x");
        assert_eq!(
            outer,
            "exec setpriv --reuid=1000 --regid=1001 --groups=5,6 -- bash /x\n"
        );
        assert_eq!(inner.unwrap(), "cd '/run/m' || exit 126\nid\n");
    }

    #[test]
    fn a_failed_script_shows_what_it_wrote() {
        let output = Output {
            script: "make".into(),
            code: 2,
            stdout: b"building".to_vec(),
            stderr: b"no rule".to_vec(),
        };
        let message = output.success().unwrap_err().to_string();
        for part in ["make", "2", "building", "no rule"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
