//! How `meridian status` and other commands get an answer from the server that runs on a data directory.
//!
//! What must never enter: the use of the answers.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::question::{Answer, DurabilityAnswer, DurabilityQuestion, Question};
use super::socket::{
    ANSWER_BYTES_MAX, FAR_PATIENCE, PATIENCE, QUESTION_BYTES_MAX, ShortPath, too_long,
};
use super::{
    ClientStatus, DrainAnswer, DrainDataAnswer, DrainDataQuestion, DrainQuestion, EvictQuestion,
    ForgetAnswer, ForgetQuestion, FrozenView, JunctionAnswer, JunctionView, JunctionsStatus,
    RebalanceAnswer, RebalanceQuestion, Rows, ScrubQuestion, ScrubView, Status, ThawAnswer,
    ThawQuestion, ViewStatus, Whereabouts,
};
use crate::Commands;
use crate::configuration::ReloadAnswer;
use crate::data_directory::{DataDirectoryError, control_socket, expect_directory, is_claimed};

/// Why there is no status. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// No server answers.
    #[error(
        "no server runs on {path}; start one with `{start}`, or name another directory with --data",
        path = .0.display(),
        start = Commands::on(.0).start()
    )]
    NotRunning(PathBuf),
    /// The directory does not exist either.
    #[error(
        "there is no data directory {path}, so no server runs on it; start one with `{start}`, which makes it, or name another directory with --data",
        path = .0.display(),
        start = Commands::on(.0).start()
    )]
    Absent(PathBuf),
    /// It contains something else.
    #[error(transparent)]
    DataDirectory(DataDirectoryError),
    /// A process uses the data directory but does not answer.
    #[error(
        "a process works on {0} and answers no questions: a server that starts or stops, or whose disk is so full that it cannot even say so (its log does), or `meridian check`; ask again in a moment"
    )]
    Busy(PathBuf),
    /// The socket belongs to another user.
    #[error("this user may not ask the server on {0}; ask as the user it runs as, or as root")]
    Permission(PathBuf),
    /// The answer is invalid.
    #[error("the server on {path} does not answer as expected ({what}); see its log")]
    Answer {
        /// The data directory.
        path: PathBuf,
        /// What happened.
        what: String,
    },
    /// The configuration has these problems.
    #[error("the configuration is wrong, and nothing was changed: {}", .0.join("\n"))]
    Misconfigured(Vec<String>),
    /// The server refuses the request.
    #[error("{0}")]
    Refused(String),
}

impl StatusError {
    /// Whether the reason is that no server runs.
    #[must_use]
    pub fn is_of_no_server(&self) -> bool {
        matches!(self, StatusError::NotRunning(_) | StatusError::Absent(_))
    }
}

/// Asks the server that runs on a data directory for its state.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not answer.
pub async fn ask(data: &Path) -> Result<Status, StatusError> {
    match put(data, &Question::Status, PATIENCE).await? {
        Answer::Status(status) => Ok(*status),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server on a data directory when updates of an object are answered, or changes that setting.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it refuses.
pub async fn ask_durability(
    data: &Path,
    question: DurabilityQuestion,
) -> Result<DurabilityAnswer, StatusError> {
    match put(data, &Question::Durability(question), FAR_PATIENCE).await? {
        Answer::Durability(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server on a data directory to move its clients to other servers, or asks for the progress.
///
/// # Errors
/// [`StatusError`] says what to do next.
pub async fn ask_drain(data: &Path, question: DrainQuestion) -> Result<DrainAnswer, StatusError> {
    match put(data, &Question::Drain(question), FAR_PATIENCE).await? {
        Answer::Drain(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server on a data directory for the members of its set and the decisions about them.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not belong to a set.
pub async fn ask_view(data: &Path) -> Result<ViewStatus, StatusError> {
    match put(data, &Question::View, PATIENCE).await? {
        Answer::View(view) => Ok(*view),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server on a data directory for its clients.
///
/// # Errors
/// [`StatusError`] when no server runs there.
pub async fn ask_clients(data: &Path) -> Result<Rows<ClientStatus>, StatusError> {
    match put(data, &Question::Clients, PATIENCE).await? {
        Answer::Clients(clients) => Ok(clients),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server on a data directory to remove all state of some clients. Returns the clients found.
///
/// # Errors
/// [`StatusError`] when no server runs there, or there is no such client.
pub async fn ask_evict(
    data: &Path,
    question: EvictQuestion,
) -> Result<Rows<ClientStatus>, StatusError> {
    match put(data, &Question::Evict(question), FAR_PATIENCE).await? {
        Answer::Clients(clients) => Ok(clients),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server on a data directory to read its configuration again.
///
/// # Errors
/// [`StatusError`] when no server runs there, or the configuration is wrong.
pub async fn ask_reload(data: &Path) -> Result<ReloadAnswer, StatusError> {
    match put(data, &Question::Reload, PATIENCE).await? {
        Answer::Reloaded(answer) => Ok(answer),
        Answer::Misconfigured(problems) => Err(StatusError::Misconfigured(problems)),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server that runs on a data directory what is frozen.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not belong to a set.
pub async fn ask_frozen(data: &Path) -> Result<Rows<FrozenView>, StatusError> {
    match put(data, &Question::Frozen, PATIENCE).await? {
        Answer::Frozen(frozen) => Ok(frozen),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the set to give up data that only a lost replica had, or asks what that would be.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it cannot be done; it says what to do next.
pub async fn ask_thaw(data: &Path, question: ThawQuestion) -> Result<ThawAnswer, StatusError> {
    match put(data, &Question::Thaw(question), FAR_PATIENCE).await? {
        Answer::Thaw(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server on a data directory to compare its copy with the others', or asks for the progress.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not belong to a set.
pub async fn ask_scrub(data: &Path, question: ScrubQuestion) -> Result<ScrubView, StatusError> {
    match put(data, &Question::Scrub(question), PATIENCE).await? {
        Answer::Scrub(scrub) => Ok(scrub),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server on a data directory to move the set's authority to another member. Returns whether that member has
/// confirmed it.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it refuses; it says what to do next.
pub async fn ask_move_authority(data: &Path, to: u16) -> Result<bool, StatusError> {
    match put(data, &Question::MoveAuthority(to), FAR_PATIENCE).await? {
        Answer::AuthorityMoved(confirmed) => Ok(confirmed),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server on a data directory which names lead to other servers.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not belong to a set.
pub async fn ask_junctions(data: &Path) -> Result<JunctionsStatus, StatusError> {
    match put(data, &Question::Junctions, PATIENCE).await? {
        Answer::Junctions(junctions) => Ok(junctions),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the set to agree that a name leads to these servers, or to none.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it refuses; it says what to do next.
pub async fn ask_junction(data: &Path, wish: JunctionView) -> Result<JunctionAnswer, StatusError> {
    match put(data, &Question::Junction(wish), FAR_PATIENCE).await? {
        Answer::Junction(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks a metadata server to remove a data server without files from its pool.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it refuses; it says what to do next.
pub async fn ask_remove_data_server(data: &Path, number: u16) -> Result<(), StatusError> {
    match put(data, &Question::RemoveDataServer(number), FAR_PATIENCE).await? {
        Answer::DataServerRemoved => Ok(()),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks a metadata server for the location of a file, by its path from the root of the tree.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it cannot answer; it says what to do next.
pub async fn ask_where(data: &Path, path: String) -> Result<Whereabouts, StatusError> {
    match put(data, &Question::Where(path), FAR_PATIENCE).await? {
        Answer::Whereabouts(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks a metadata server to stop striping new files over a data server, or to start again.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it refuses; it says what to do next.
pub async fn ask_drain_data(
    data: &Path,
    question: DrainDataQuestion,
) -> Result<DrainDataAnswer, StatusError> {
    match put(data, &Question::DrainData(question), FAR_PATIENCE).await? {
        Answer::DataDrained(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks a metadata server to spread files over added data servers, or to stop that.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it refuses; it says what to do next.
pub async fn ask_rebalance(
    data: &Path,
    question: RebalanceQuestion,
) -> Result<RebalanceAnswer, StatusError> {
    match put(data, &Question::Rebalance(question), FAR_PATIENCE).await? {
        Answer::Rebalanced(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks a metadata server to give up a lost data server, or to report what that would mean.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it refuses; it says what to do next.
pub async fn ask_forget_data_server(
    data: &Path,
    question: ForgetQuestion,
) -> Result<ForgetAnswer, StatusError> {
    match put(data, &Question::ForgetDataServer(question), FAR_PATIENCE).await? {
        Answer::DataServerForgotten(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks a metadata server to use a data server again that it refuses because an older copy of its contents was
/// detected. Returns whether it already serves.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it refuses; it says what to do next.
pub async fn ask_readmit_data_server(data: &Path, number: u16) -> Result<bool, StatusError> {
    match put(data, &Question::ReadmitDataServer(number), FAR_PATIENCE).await? {
        Answer::DataServerReadmitted(serves) => Ok(serves),
        other => Err(unexpected(data, &other)),
    }
}

fn unexpected(data: &Path, answer: &Answer) -> StatusError {
    match answer {
        Answer::Refused(reason) => StatusError::Refused(reason.clone()),
        _ => StatusError::Answer {
            path: data.to_owned(),
            what: "it answers another question".to_owned(),
        },
    }
}

pub(super) async fn put(
    data: &Path,
    question: &Question,
    patience: Duration,
) -> Result<Answer, StatusError> {
    let wrong = |what: String| StatusError::Answer {
        path: data.to_owned(),
        what,
    };
    let question = serde_json::to_vec(question).map_err(|error| wrong(error.to_string()))?;
    if question.len() as u64 > QUESTION_BYTES_MAX {
        return Err(StatusError::Refused(too_long()));
    }
    let asked = tokio::time::timeout(patience, exchange(data, &question)).await;
    let answer = asked.map_err(|_| wrong("it takes too long".to_owned()))?;
    let answer = answer.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => match is_claimed(data) {
            true => StatusError::Busy(data.to_owned()),
            false => nobody(data),
        },
        io::ErrorKind::PermissionDenied => StatusError::Permission(data.to_owned()),
        io::ErrorKind::NotADirectory => nobody(data),
        _ => wrong(error.to_string()),
    })?;
    if answer.is_empty() {
        return Err(wrong(
            "it stopped before it answered: start it, and look whether that was done".to_owned(),
        ));
    }
    serde_json::from_slice(&answer).map_err(|error| wrong(error.to_string()))
}

/// No server runs, or the reason why none can.
fn nobody(data: &Path) -> StatusError {
    match expect_directory(data) {
        Ok(()) => StatusError::NotRunning(data.to_owned()),
        Err(DataDirectoryError::Missing(data)) => StatusError::Absent(data),
        Err(error) => StatusError::DataDirectory(error),
    }
}

pub(super) async fn exchange(data: &Path, question: &[u8]) -> io::Result<Vec<u8>> {
    let short = ShortPath::of(&control_socket(data))?;
    let mut stream = UnixStream::connect(&short.path).await?;
    stream.write_all(question).await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    (&mut stream)
        .take(ANSWER_BYTES_MAX + 1)
        .read_to_end(&mut answer)
        .await?;
    Ok(answer)
}
