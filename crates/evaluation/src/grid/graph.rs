//! The data-flow graphs of the NAS Grid Benchmarks: the inputs of each task.
//!
//! The shapes are from Van der Wijngaart and Frumkin, "NAS Grid Benchmarks Version 1.0", NAS-02-005, 2002: nine tasks
//! in three rows of three. The volumes are from Table 1 of "Hierarchical Replication Control in a Global File System",
//! and the computing times from its Table 2, measured by the authors on one node. These assumptions are added here:
//!
//! - All tasks of a graph compute equally long, except in Mixed Bag, whose columns do 1, 3/4 and 2/3 of the iterations, as
//!   in GridNPB 3.0.
//! - In Mixed Bag, some tasks read more than others: a task reads from its own column and the one before;
//!   if two tasks read from one, it is the same file.
//!
//! What must never enter: files, servers, and real time.

use std::fmt;
use std::time::Duration;

/// Tasks of every graph.
pub(super) const TASKS: usize = 9;

/// Tasks of a row.
const COLUMNS: usize = 3;

/// The number of computing sites; tasks are assigned in turns.
pub(super) const SITES: usize = 3;

/// One of the four problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Benchmark {
    /// Embarrassingly Distributed: independent tasks.
    Ed,
    /// Helical Chain: one task after another.
    Hc,
    /// Visualization Pipe: flow solver, post processor and visualization as a pipeline.
    Vp,
    /// Mixed Bag: like the pipe, with different amounts of work and data.
    Mb,
}

/// The size of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Sample.
    S,
    /// Workstation.
    W,
    /// The smallest for Grids.
    A,
}

/// The consumer of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consumer {
    /// A task, by its number.
    Task(usize),
    /// The user who has launched the job at the first site, and waits for its end.
    Report,
}

/// A file that a task makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    /// The task that makes it.
    pub(super) from: usize,
    /// Its consumers.
    pub(super) to: Vec<Consumer>,
    /// Its size; zero if only the end of the task matters.
    pub(super) bytes: u64,
}

/// One problem of one class.
#[derive(Debug, Clone)]
pub(super) struct Graph {
    /// All files.
    pub(super) outputs: Vec<Output>,
    /// The computing time of each task on the authors' node.
    pub(super) computing: [Duration; TASKS],
}

impl Benchmark {
    /// All problems, in the order of the papers' figures.
    pub(super) const ALL: [Self; 4] = [Self::Ed, Self::Hc, Self::Vp, Self::Mb];

    /// Its name in the papers.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ed => "ED",
            Self::Hc => "HC",
            Self::Vp => "VP",
            Self::Mb => "MB",
        }
    }
}

impl Class {
    /// All classes, the smallest first.
    pub(super) const ALL: [Self; 3] = [Self::S, Self::W, Self::A];
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The volumes in Table 1 for one class, in bytes; K and M mean 1000 and 1000000.
struct Volumes {
    /// Helical Chain: BT to SP, SP to LU, LU to BT.
    chain: [u64; 3],
    /// Visualization Pipe: BT to MG, MG to FT, BT to BT, FT to FT.
    pipe: [u64; 4],
    /// Mixed Bag: LU to MG, MG to FT.
    bag: [u64; 2],
}

const K: u64 = 1_000;
const M: u64 = 1_000_000;

/// Table 1 of both papers; in the main one BT is written for the LU of Mixed Bag.
fn volumes(class: Class) -> Volumes {
    match class {
        Class::S => Volumes {
            chain: [169 * K; 3],
            pipe: [34 * K, 641 * K, 169 * K, 5_100 * K],
            bag: [34 * K, 641 * K],
        },
        Class::W => Volumes {
            chain: [1_400 * K, 4_500 * K, 3_500 * K],
            pipe: [271 * K, 41 * M, 1_400 * K, 11 * M],
            bag: [702 * K, 41 * M],
        },
        Class::A => Volumes {
            chain: [26 * M; 3],
            pipe: [5_100 * K, 321 * M, 26 * M, 161 * M],
            bag: [5_100 * K, 321 * M],
        },
    }
}

/// The time of all tasks together on one node of the authors, with a local file system: Table 2.
pub(super) fn single_node(benchmark: Benchmark, class: Class) -> Duration {
    let seconds = match class {
        Class::S => [2, 1, 9, 6],
        Class::W => [217, 31, 83, 101],
        Class::A => [1380, 223, 930, 870],
    };
    Duration::from_secs(seconds[benchmark as usize])
}

/// The site at which a task runs.
pub(super) fn site_of(task: usize) -> usize {
    task % SITES
}

impl Consumer {
    /// The site of the consumer.
    pub(super) fn site(self) -> usize {
        match self {
            Self::Task(task) => site_of(task),
            Self::Report => 0,
        }
    }
}

impl Graph {
    /// The graph of a problem.
    pub(super) fn of(benchmark: Benchmark, class: Class) -> Self {
        let volumes = volumes(class);
        let mut outputs = match benchmark {
            Benchmark::Ed => Vec::new(),
            Benchmark::Hc => chain(volumes.chain),
            Benchmark::Vp => pipe(volumes.pipe),
            Benchmark::Mb => bag(volumes.bag),
        };
        let is_last = |task: usize| outputs.iter().all(|output: &Output| output.from != task);
        let ends: Vec<usize> = (0..TASKS).filter(|&task| is_last(task)).collect();
        outputs.extend(ends.into_iter().map(|from| Output {
            from,
            to: vec![Consumer::Report],
            bytes: 0,
        }));
        Self {
            outputs,
            computing: computing(benchmark, single_node(benchmark, class)),
        }
    }

    /// The files that this consumer waits for, by their numbers.
    pub(super) fn inputs(&self, consumer: Consumer) -> impl Iterator<Item = usize> {
        self.numbers(move |output| output.to.contains(&consumer))
    }

    /// The files of this task, by their numbers.
    pub(super) fn outputs_of(&self, task: usize) -> impl Iterator<Item = usize> {
        self.numbers(move |output| output.from == task)
    }

    fn numbers(&self, is_meant: impl Fn(&Output) -> bool) -> impl Iterator<Item = usize> {
        let numbered = self.outputs.iter().enumerate();
        numbered
            .filter(move |(_, output)| is_meant(output))
            .map(|(number, _)| number)
    }

    /// The total size of all outputs.
    pub(super) fn bytes(&self) -> u64 {
        self.outputs.iter().map(|output| output.bytes).sum()
    }
}

impl Output {
    /// For other tasks.
    fn new(from: usize, to: &[usize], bytes: u64) -> Self {
        let to = to.iter().copied().map(Consumer::Task).collect();
        Self { from, to, bytes }
    }
}

/// BT, SP and LU three times, one after another.
fn chain(volumes: [u64; 3]) -> Vec<Output> {
    let link = |from: usize| Output::new(from, &[from + 1], volumes[from % volumes.len()]);
    (0..TASKS - 1).map(link).collect()
}

/// Rows of BT, MG and FT: down each column, and along the first and the last row.
fn pipe([bt_mg, mg_ft, bt_bt, ft_ft]: [u64; 4]) -> Vec<Output> {
    let mut outputs = Vec::new();
    for column in 0..COLUMNS {
        let [bt, mg, ft] = [0, 1, 2].map(|row| row * COLUMNS + column);
        outputs.push(Output::new(bt, &[mg], bt_mg));
        outputs.push(Output::new(mg, &[ft], mg_ft));
        if column + 1 < COLUMNS {
            outputs.push(Output::new(bt, &[bt + 1], bt_bt));
            outputs.push(Output::new(ft, &[ft + 1], ft_ft));
        }
    }
    outputs
}

/// Rows of LU, MG and FT: down each column and to the next.
fn bag(volumes: [u64; 2]) -> Vec<Output> {
    let mut outputs = Vec::new();
    for (row, bytes) in volumes.into_iter().enumerate() {
        for column in 0..COLUMNS {
            let from = row * COLUMNS + column;
            let below = from + COLUMNS;
            match column + 1 < COLUMNS {
                true => outputs.push(Output::new(from, &[below, below + 1], bytes)),
                false => outputs.push(Output::new(from, &[below], bytes)),
            }
        }
    }
    outputs
}

/// The parts of the tasks in the total time.
fn computing(benchmark: Benchmark, all: Duration) -> [Duration; TASKS] {
    let weight = |task: usize| {
        let column = (task % COLUMNS) as f64;
        match benchmark {
            Benchmark::Mb => 1.0 - 0.5 * column / (column + 1.0),
            _ => 1.0,
        }
    };
    let sum: f64 = (0..TASKS).map(weight).sum();
    std::array::from_fn(|task| all.mul_f64(weight(task) / sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = (Benchmark, Class)> {
        let classes = |benchmark| Class::ALL.map(move |class| (benchmark, class));
        Benchmark::ALL.into_iter().flat_map(classes)
    }

    #[test]
    fn data_only_flows_forward_and_reaches_the_report() {
        for (benchmark, class) in all() {
            let graph = Graph::of(benchmark, class);
            for Output { from, to, bytes } in &graph.outputs {
                for consumer in to {
                    match *consumer {
                        Consumer::Task(to) => assert!(*from < to && to < TASKS && *bytes > 0),
                        Consumer::Report => assert_eq!(*bytes, 0),
                    }
                }
            }
            for task in 0..TASKS {
                assert!(graph.outputs_of(task).count() > 0, "{benchmark:?} {task}");
            }
            assert!(graph.inputs(Consumer::Report).count() > 0);
        }
    }

    #[test]
    fn the_volumes_are_those_of_table_1() {
        let bytes = |benchmark, class| Graph::of(benchmark, class).bytes();
        assert_eq!(bytes(Benchmark::Ed, Class::A), 0);
        assert_eq!(bytes(Benchmark::Hc, Class::S), 8 * 169_000);
        // Three times BT to SP and SP to LU, twice LU to BT.
        let chain = 3 * 1_400_000 + 3 * 4_500_000 + 2 * 3_500_000;
        assert_eq!(bytes(Benchmark::Hc, Class::W), chain);
        let pipe = 3 * 5_100_000 + 3 * 321_000_000 + 2 * 26_000_000 + 2 * 161_000_000;
        assert_eq!(bytes(Benchmark::Vp, Class::A), pipe);
        assert_eq!(bytes(Benchmark::Mb, Class::S), 3 * 34_000 + 3 * 641_000);
    }

    #[test]
    fn tasks_go_round_the_sites_and_share_the_time_of_table_2() {
        assert_eq!([0, 1, 2, 3, 8].map(site_of), [0, 1, 2, 0, 2]);
        for (benchmark, class) in all() {
            let graph = Graph::of(benchmark, class);
            let sum: f64 = graph.computing.iter().map(Duration::as_secs_f64).sum();
            let expected = single_node(benchmark, class).as_secs_f64();
            assert!((sum - expected).abs() < 1e-6, "{benchmark:?} {class}");
        }
        let bag = Graph::of(Benchmark::Mb, Class::A).computing;
        assert!(bag[0] > bag[1] && bag[1] > bag[2] && bag[0] == bag[3]);
        assert_eq!(single_node(Benchmark::Vp, Class::W).as_secs(), 83);
    }

    #[test]
    fn the_chain_changes_sites_at_every_step_and_others_now_and_then() {
        let crossing = |benchmark| {
            let graph = Graph::of(benchmark, Class::S);
            let copies = |output: &Output| {
                let here = site_of(output.from);
                let elsewhere = output.to.iter().filter(|to| to.site() != here);
                elsewhere.count() * usize::from(output.bytes > 0)
            };
            graph.outputs.iter().map(copies).sum::<usize>()
        };
        assert_eq!(crossing(Benchmark::Hc), 8);
        assert_eq!(crossing(Benchmark::Vp), 4);
        assert_eq!(crossing(Benchmark::Mb), 4);
    }
}
