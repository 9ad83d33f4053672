//! `meridian manual`: writes the manual pages and shell completions for packages.
//!
//! What must never enter: descriptions of commands; they are with the arguments.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::exit::{Exit, Failure};

/// The shells, each with the name of its completion file.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "meridian"),
    (Shell::Zsh, "_meridian"),
    (Shell::Fish, "meridian.fish"),
];

/// Writes pages to `man/` and completions to `completions/` in a directory.
pub(crate) fn write(to: &Path) -> Result<Exit, Failure> {
    write_all(to).with_context(|| format!("cannot write to {}", to.display()))?;
    Ok(Exit::Success)
}

fn write_all(to: &Path) -> std::io::Result<()> {
    let (pages, completions) = (to.join("man"), to.join("completions"));
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(Arguments::command(), &pages)?;
    for (shell, name) in SHELLS {
        let directory = completions.join(shell.to_string());
        fs::create_dir_all(&directory)?;
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "meridian", &mut text);
        fs::write(directory.join(name), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_and_each_shell_knows_it() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path()).unwrap();
        let read = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
        let mut commands = 0;
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            if command.is_hide_set() {
                continue;
            }
            commands += 1;
            let page = read(&format!("man/meridian-{name}.1"));
            assert!(page.contains(".SH NAME"), "{page}");
            for shell in ["bash/meridian", "zsh/_meridian", "fish/meridian.fish"] {
                assert!(
                    read(&format!("completions/{shell}")).contains(name),
                    "{shell}, {name}"
                );
            }
        }
        assert!(commands > 10, "only {commands} commands");
        assert!(read("man/meridian-set-join.1").contains("address"));
    }
}
