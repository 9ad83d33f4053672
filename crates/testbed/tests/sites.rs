//! Sites and services without a guest.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;

use anyhow::{Context, Result};
use testbed::{Ganesha, Requirements, Service, Site};

/// A site, or nothing if this machine cannot make one.
fn site(test: &str) -> Result<Option<Site>> {
    if Requirements::site().admit(test)? {
        Site::new().map(Some)
    } else {
        Ok(None)
    }
}

#[test]
fn sites_do_not_see_each_other() -> Result<()> {
    let Some(here) = site("sites do not see each other")? else {
        return Ok(());
    };
    let there = Site::new()?;
    let address = SocketAddr::new(here.address(), 4711);
    let listener = here.enter(|| TcpListener::bind(address))??;
    assert!(here.enter(|| TcpStream::connect(address))?.is_ok());
    assert!(there.enter(|| TcpStream::connect(address))?.is_err());
    let again = there.enter(|| TcpListener::bind(address))?;
    assert!(
        again.is_ok(),
        "both sites have the whole address for themselves"
    );
    drop(listener);
    Ok(())
}

#[test]
fn a_server_that_ends_early_is_reported_with_its_last_words() -> Result<()> {
    let Some(site) = site("a server that ends early is reported")? else {
        return Ok(());
    };
    let mut command = site.command("sh");
    command.args(["-c", "echo wrong configuration; exit 3"]);
    let mut server = Service::start(&site, "hasty", command)?;
    let error = server
        .wait_for_nfs(site.nfs_address())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("wrong configuration") && error.contains("3"),
        "{error}"
    );
    let folder = site.folder().to_owned();
    drop((server, site));
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

#[test]
fn a_server_is_stopped_and_started_again_with_one_log() -> Result<()> {
    let Some(site) = site("a server is stopped and started again")? else {
        return Ok(());
    };
    let mut command = site.command("bash");
    command.args([
        "-c",
        "trap 'echo stopped; exit 4' TERM; echo started; while :; do sleep 0.1; done",
    ]);
    let mut server = Service::start(&site, "patient", command)?;
    let log = server.log().to_owned();
    let lines = |count| {
        let log = log.clone();
        move || Ok(std::fs::read_to_string(&log)?.lines().count() == count)
    };
    eventually(lines(1))?;
    assert_eq!(server.stop()?.code(), Some(4));
    assert!(server.pid().is_none());
    server.restart()?;
    eventually(lines(3))?;
    server.kill()?;
    assert_eq!(
        std::fs::read_to_string(&log)?,
        "started\nstopped\nstarted\n"
    );
    Ok(())
}

#[test]
fn two_ganeshas_share_a_site() -> Result<()> {
    let test = "two Ganeshas share a site";
    if !Requirements::site().with_ganesha().admit(test)? {
        return Ok(());
    }
    let site = Site::new()?;
    let mut first = Ganesha::start(&site, site.folder())?;
    let address = SocketAddr::new(site.address(), 3049);
    let mut second = Ganesha::start_at(&site, site.folder(), address)?;
    first.service().kill()?;
    second.service().wait_for_nfs(address)?;
    let stopped = second.service().stop()?;
    assert!(
        stopped.code().or(stopped.signal()).context("it ended")? == 0,
        "{stopped}"
    );
    Ok(())
}

/// Waits until a condition holds, for at most ten seconds.
fn eventually(mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..500 {
        if condition()? {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    anyhow::bail!("the condition never held")
}
