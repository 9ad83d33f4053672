//! A source tree that is unpacked at one site while the others use it.
//!
//! What must never enter: how long it takes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testbed::quoted;

use crate::scene::{PATIENCE, Sites, finish, in_sites, program};

/// C files of the program that is built.
const PARTS: usize = 4;

/// Runs a command of the host that must succeed.
fn host(command: &mut Command) -> Result<()> {
    let status = command.status();
    let status = status.with_context(|| format!("could not start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// A small C program, and this workspace's own crates beside it; and an archive of both in which the program
/// comes first.
fn source_tree(sites: &Sites) -> Result<(String, String)> {
    let folder = sites.host_folder("source")?;
    let (tree, archive) = (folder.join("tree"), folder.join("tree.tar"));
    fs::create_dir_all(tree.join("program"))?;
    let mut calls = String::new();
    for part in 0..PARTS {
        let text = format!("int part_{part}(void) {{ return {part}; }}\n");
        fs::write(tree.join(format!("program/part_{part}.c")), text)?;
        calls += &format!("    sum += part_{part}();\n");
    }
    let declared: String = (0..PARTS)
        .map(|part| format!("int part_{part}(void);\n"))
        .collect();
    let main = format!(
        "#include <stdio.h>\n{declared}int main(void) {{\n    int sum = 0;\n{calls}    \
         printf(\"%d\\n\", sum);\n    return 0;\n}}\n"
    );
    fs::write(tree.join("program/main.c"), main)?;
    fs::write(tree.join("program-is-whole"), "")?;
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["vfs", "xdr", "store", "nfs4"] {
        host(
            Command::new("cp")
                .arg("-a")
                .arg(crates.join(name))
                .arg(&tree),
        )?;
    }
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&tree).arg("-cf").arg(&archive);
    tar.args(["program", "program-is-whole", "vfs", "xdr", "store", "nfs4"]);
    host(&mut tar)?;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a plain name");
    Ok((text(&tree)?, text(&archive)?))
}

/// Reads everything that is there, again and again, until all of it is.
const READ: &str = "
    cd /run/m/unpacked
    until [ -e all-is-there ]; do find . -type f -exec cat {} + > /dev/null || exit 1; done
    find . -name '*.rs' | wc -l";

/// Builds as soon as the program is there, while the rest is still unpacked.
const BUILD: &str = "
    cd /run/m/unpacked
    until [ -e tree/program-is-whole ]; do :; done
    mkdir build && cd build || exit 1
    cc -c ../tree/program/*.c && cc -o sum *.o && ./sum";

pub fn a_tree_unpacked_at_one_site_is_read_and_built_at_the_others_meanwhile() -> Result<()> {
    in_sites(|sites| {
        let (original, archive) = source_tree(sites)?;
        sites.run(0, "mkdir -p /run/m/unpacked/tree")?;
        let reads = sites.start(1, READ)?;
        let builds = sites.start(2, BUILD)?;
        let unpack = format!("tar -C /run/m/unpacked/tree -xf {}", quoted(&archive));
        sites.run(0, unpack)?;
        sites.run(0, "echo > /run/m/unpacked/all-is-there")?;
        let built = builds
            .wait(PATIENCE)?
            .context("the build does not end")?
            .success()?;
        ensure!(built.text() == "6\n", "{}", built.text());
        let counted = finish(&reads)?.text();
        ensure!(counted.trim().parse::<u32>()? > 100, "{counted}");

        sites.everywhere(|_| program(["compare", &original, "/run/m/unpacked/tree"]))?;
        sites.equal_everywhere("unpacked")?;
        for site in 0..2 {
            let sum = sites.run(site, "/run/m/unpacked/build/sum")?.text();
            ensure!(sum == "6\n", "{sum}");
        }
        sites.run(2, "rm -r /run/m/unpacked")?;
        sites.equal_everywhere(".")?;
        Ok(())
    })
}
