//! One workload at a running server, for as long as a profiler needs.

use std::time::{Duration, Instant};

use anyhow::Result;
use bench::client::Target;
use bench::tally::Tally;

use crate::arguments::LoadArguments;
use crate::worker::Crew;
use crate::workload::{Workload, data, directory, files};

/// The number of bytes written to large files.
const DATA_SIZE: u64 = 512 << 20;

/// How long files are made for workloads that read some.
const PREPARATION: Duration = Duration::from_secs(1);

/// Drives the server and prints the results.
pub(crate) fn run(arguments: &LoadArguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(drive(arguments))
}

async fn drive(arguments: &LoadArguments) -> Result<()> {
    let target = Target {
        site: None,
        address: arguments.server,
        export: arguments.export.clone(),
    };
    let workload = arguments.workload;
    let name = format!("load-{}", std::process::id());
    if workload == Workload::Readdir {
        directory::make(&target).await?;
    }
    let clients = arguments.clients.max(1);
    let mut crew = Crew::hire(&target, clients, &name, DATA_SIZE).await?;
    prepare(workload, &mut crew).await?;

    let length = Duration::from_secs_f64(arguments.seconds);
    eprintln!("bench: {} by {clients} clients", workload.title());
    let began = Instant::now();
    let (mut together, mut busy) = (Tally::default(), Duration::ZERO);
    while began.elapsed() < length {
        let left = length.saturating_sub(began.elapsed());
        let (tally, took) = workload.run(&mut crew, left).await?;
        together.absorb(&tally);
        busy += took;
        // A workload that ends by itself is prepared and done again until the time is over.
        if workload == Workload::Remove {
            prepare(workload, &mut crew).await?;
        }
    }
    println!(
        "{:.0} {} (median {} us, 99 % within {} us)",
        together.amount as f64 / workload.scale() / busy.as_secs_f64(),
        workload.unit(),
        together.percentile(0.5),
        together.percentile(0.99)
    );
    clean(workload, &mut crew).await?;
    crew.clear().await
}

/// Makes what the workload needs.
async fn prepare(workload: Workload, crew: &mut Crew) -> Result<()> {
    match workload {
        Workload::Getattr | Workload::Lookup | Workload::Remove => {
            Workload::Create.run(crew, PREPARATION).await?;
        }
        Workload::Read | Workload::RandomRead | Workload::RandomWrite => {
            Workload::Write.run(crew, PREPARATION).await?;
        }
        _ => {}
    }
    Ok(())
}

/// Checks and removes what was made.
async fn clean(workload: Workload, crew: &mut Crew) -> Result<()> {
    match workload {
        Workload::Readdir => {}
        Workload::Write | Workload::Read | Workload::RandomRead | Workload::RandomWrite => {
            let share = data::Share::of(crew.data());
            crew.all(move |worker| data::check_and_remove(worker, share))
                .await?;
        }
        _ => {
            crew.all(files::check).await?;
            crew.all(files::remove).await?;
        }
    }
    Ok(())
}
