//! The pages of the experiments of the NFSP paper.
//!
//! What must never enter: measuring.

use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::Point;
use plot::{Axis, Chart, Plot};

use super::bytes::BLOCK;
use super::machines::{Count, of_bandwidth};
use super::series::{
    CAT, Doing, FILES, NUMBER, ONE, PNFS, SEARCHED, STAT, THROUGH, size, size_of_all, sizes,
};
use super::streams::DEPTH_OF_EACH;
use super::{GANESHA, QUEUE, where_words};
use crate::experiment::Shown;
use crate::extent::Extent;

/// A description of the client, for both pages.
const CLIENT: &str = "The clients are the one of `crates/nfs4-client`, all in one process; it reads and writes at the data servers by the \
                      files layout, as Linux does. ";

/// The page of Figure 3.
pub(super) fn figure_3(results: &Results, extent: Extent) -> Shown {
    let last = sizes(extent).last().copied().unwrap_or(0);
    let about = format!(
        "{}There is a pool of one data server and {last} metadata servers, numbered from 0, and a client at one of them at a time. {FILES} empty \
         files are made at server {}; then a client at server {}, and so on down to server 0, looks at each of them, which gives the time and the \
         messages for one file: *stat* asks for the file by its name and for its attributes, in one request, of files that nobody there has seen; *cat* opens, reads and closes others. The paper's prototype begins each search at server 0, so the horizontal axis says how many servers it would have asked. \
         Messages are what the client's server has asked the first metadata server, which is the home of all objects; server 0 is that one itself. Beside it, \
         the same with {GANESHA}, a single server with files of its own.\n\n\
         The second table has the same while the pool grows: the files are made at server 0, and looked at at the server that has joined last. {CLIENT}It keeps nothing in \
         memory, and asks for the directory once for all files.",
        where_words(QUEUE),
        last.saturating_sub(1),
        last.saturating_sub(2),
    );
    let columns = [
        Figure {
            name: "access_s",
            title: "time for a file (ms)",
            unit: 1e-3,
        },
        Figure::plain("messages", "messages between servers for a file"),
    ];
    let heads = |x| Heads::of("server", x);
    let searched = heads("servers that the paper's would ask");
    let number = heads("metadata servers");
    let chart = |panel: &str, x: &str, figure: Figure| Chart {
        title: panel.to_owned(),
        x: Axis::linear(x),
        y: Axis::linear(figure.title),
        marks: chart::lines(results, panel, figure.name, figure.unit, None),
    };
    let [time, messages] = columns;
    Shown {
        title: "NFSP, Figure 3: a file that another metadata server made",
        about,
        claims: include_str!("../claims/nfsp-figure-3.md"),
        tables: vec![
            table::by_point(&results.of_panel(SEARCHED), searched, &columns, None),
            table::by_point(&results.of_panel(NUMBER), number, &columns, None),
        ],
        plots: vec![Plot::only(
            "A file that another metadata server made (NFSP, Figure 3)",
            2,
            vec![
                chart(SEARCHED, searched.x, time),
                chart(SEARCHED, searched.x, messages),
                chart(NUMBER, number.x, time),
                chart(NUMBER, number.x, messages),
            ],
        )],
    }
}

/// The result of Figure 3.
pub(super) fn figure_3_in_a_line(results: &Results) -> Option<String> {
    let places = results.places(NUMBER);
    let (first, last) = (places.first()?, places.last()?);
    let at = |series: &str, x: &str| {
        let point = Point::new(NUMBER, series, x);
        let messages = results.summary(&point, "messages")?;
        let time = results.summary(&point, "access_s")?;
        let (messages, time) = (table::cell(messages, 1.0), table::cell(time, 1e-3));
        Some(format!("{messages} messages, {time} ms"))
    };
    let of = |series| {
        let (few, many) = (at(series, first)?, at(series, last)?);
        Some(format!(
            "{series}: {few} with {first} metadata servers, {many} with {last}"
        ))
    };
    Some(format!("{}; {}", of(STAT)?, of(CAT)?))
}

/// The page of Figure 4, or 5.
pub(super) fn bandwidth(doing: Doing, results: &Results, extent: Extent) -> Shown {
    let columns = [
        Figure {
            name: "rate_bytes_s",
            title: "all clients together (MB/s)",
            unit: 1e6,
        },
        Figure::plain("card_share", "share of the cards"),
        Figure::plain("client_share", "share of each client's card"),
        Figure::plain("tcp_share", "plain TCP, share of one card"),
        Figure::plain("mounted_cpu_s_gib", "CPU of mounted servers (s/GiB)"),
        Figure::plain("data_cpu_s_gib", "CPU of data servers (s/GiB)"),
        Figure::plain("own_cpu_s", "CPU of clients and network (s)"),
        Figure::plain("put_off", "requests put off"),
    ];
    let [rate, share, each, _, processor, ..] = columns;
    let chart = |figure: Figure, y: Axis| {
        Chart::untitled(
            Axis::linear("clients"),
            y,
            chart::lines(results, "", figure.name, figure.unit, None),
        )
    };
    let heads = Heads::of("way", "clients");
    let (title, claims) = match doing {
        Doing::Reading => (
            "NFSP, Figure 4: reading, with more and more clients",
            include_str!("../claims/nfsp-figure-4.md"),
        ),
        Doing::Writing => (
            "NFSP, Figure 5: writing, with more and more clients",
            include_str!("../claims/nfsp-figure-5.md"),
        ),
    };
    Shown {
        title,
        about: about(doing, extent),
        claims,
        tables: vec![table::by_point(results, heads, &columns, None)],
        plots: vec![Plot::only(
            title.to_owned(),
            2,
            vec![
                chart(rate, Axis::linear(rate.title)),
                chart(share, Axis::linear(share.title)),
                chart(each, Axis::linear(each.title)),
                chart(processor, Axis::log(processor.title)),
            ],
        )],
    }
}

fn about(doing: Doing, extent: Extent) -> String {
    let Count {
        metadata,
        data,
        clients,
    } = of_bandwidth(extent);
    let [one, through, pnfs] = [ONE, THROUGH, PNFS].map(|series| size(series, extent) >> 20);
    let sizes = format!(
        "{pnfs} MiB with pNFS, {through} MiB through all metadata servers, and {one} MiB through one server"
    );
    let depth = doing.depth();
    let work = match doing {
        Doing::Reading => format!(
            "All clients at once read one file of {} MiB, which all servers have in memory: {sizes}; every byte is compared",
            size_of_all(extent) >> 20
        ),
        Doing::Writing => format!(
            "Each client writes a new file, all at once, and makes it durable: {sizes}; every byte is read and compared afterwards, through the first server, with \
             no bound on the cards"
        ),
    };
    format!(
        "{}There are {data} data servers, {metadata} metadata servers, 1 to {clients} clients, and {GANESHA} on a machine of its own. {work}. The time is \
         from the beginning to the end of the last client; mounting is not part of it. Requests have {} KiB, as the stripes do, and {depth} of each client are under way \
         at once, with pNFS {DEPTH_OF_EACH} for each data server. {CLIENT}\n\n\
         - *{GANESHA}*: the central server.\n\
         - *{ONE}*: all clients have mounted the first metadata server, and have no pNFS. So all bytes pass its card, as what is written does in the original NFSP; what is \
         read there, the original's data servers send to the clients under its address.\n\
         - *{THROUGH}*: the clients have mounted the {metadata} metadata servers in turn, and have no pNFS.\n\
         - *{PNFS}*: the same clients with pNFS.\n\n\
         *Share of the cards*: of what as many cards as there are clients, or data servers if these are fewer, carry besides the headers of TCP and IP, 1448 bytes of 1500. What one connection of plain TCP between a client and \
         a data server has of one card is measured before each round, and shown beside it. *Share of each client's card* is the paper's efficiency. *Mounted servers* are all metadata servers, or {GANESHA}; a request is *put off* when the server says that it be sent again later. The raw results have the processor \
         time of every process, what else it did in that time included. A trial counts only when the metadata servers have sent more than all \
         bytes where these pass them, and less than a tenth with pNFS. Where one card bounds all clients, fewer numbers of clients are measured.",
        where_words(doing.queue()),
        BLOCK >> 10,
    )
}

/// The result of Figure 4, or 5.
pub(super) fn bandwidth_in_a_line(results: &Results) -> Option<String> {
    let x = results.last_place("")?;
    let shares = [GANESHA, ONE, THROUGH, PNFS].map(|series| {
        let share = results.summary(&Point::new("", series, x), "card_share")?;
        Some(format!("{series} {}", table::cell(share, 1.0)))
    });
    let shares: Option<Vec<String>> = shares.into_iter().collect();
    let [pnfs, through] = [PNFS, THROUGH].map(|series| Point::new("", series, x));
    let processor = results.ratio(&pnfs, &through, "mounted_cpu_s_gib")?;
    Some(format!(
        "share of the data servers' cards, {x} clients: {}; processor time of metadata servers with pNFS by that without: {}",
        shares?.join(", "),
        table::cell(processor, 1.0)
    ))
}
