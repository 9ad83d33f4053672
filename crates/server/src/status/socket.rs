//! How `meridian status` and other commands get an answer: a Unix socket in the data directory, which only
//! those who may open that directory can reach. Whoever connects writes one question and reads one answer.
//!
//! What must never enter: what questions mean.

use std::fs;
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use vfs::ShownText;

use super::Status;
use super::question::{Answer, DurabilityAnswer, DurabilityQuestion, Question};
use super::{
    ClientStatus, DrainAnswer, DrainDataAnswer, DrainDataQuestion, DrainQuestion, EvictQuestion,
    ForgetAnswer, ForgetQuestion, FrozenView, JunctionAnswer, JunctionStatus, JunctionsStatus,
    RebalanceAnswer, RebalanceQuestion, ScrubQuestion, ScrubView, ThawAnswer, ThawQuestion,
    ViewStatus, Whereabouts,
};
use crate::Commands;
use crate::configuration::ReloadAnswer;
use crate::data_directory::{control_socket, is_claimed};

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the server may take for a question that other replicas have a part in.
const FAR_PATIENCE: Duration = Duration::from_secs(60);
/// No answer is larger.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// No question is larger: a path fits in it many times.
const QUESTION_BYTES_MAX: u64 = 64 << 10;
/// Questions that are answered at once; more wait.
const QUESTIONS_AT_ONCE: usize = 16;

/// Answers questions.
pub(crate) type Answering =
    Arc<dyn Fn(Question) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

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
    /// A process works on the data directory and answers nobody.
    #[error(
        "a process works on {0} and answers no questions: a server that starts or stops, or `meridian check`; ask again in a moment"
    )]
    Busy(PathBuf),
    /// The socket belongs to somebody else.
    #[error("this user may not ask the server on {0}; ask as the user it runs as, or as root")]
    Permission(PathBuf),
    /// The answer is of no use.
    #[error("the server on {path} does not answer as expected ({what}); see its log")]
    Answer {
        /// The data directory.
        path: PathBuf,
        /// What happened.
        what: String,
    },
    /// The server does not do what it is asked.
    #[error("{0}")]
    Refused(String),
}

/// Asks the server that runs on a data directory how it is.
///
/// # Errors
/// [`StatusError`] when none does, or it does not answer.
pub async fn ask(data: &Path) -> Result<Status, StatusError> {
    match put(data, &Question::Status, PATIENCE).await? {
        Answer::Status(status) => Ok(*status),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server that runs on a data directory when updates of an object are answered, or changes that.
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

/// Has the server that runs on a data directory send its clients away, or asks how far it is.
///
/// # Errors
/// [`StatusError`] says what to do next.
pub async fn ask_drain(data: &Path, question: DrainQuestion) -> Result<DrainAnswer, StatusError> {
    match put(data, &Question::Drain(question), FAR_PATIENCE).await? {
        Answer::Drain(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server that runs on a data directory who takes part in its set, and what was decided about that.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it belongs to no set.
pub async fn ask_view(data: &Path) -> Result<ViewStatus, StatusError> {
    match put(data, &Question::View, PATIENCE).await? {
        Answer::View(view) => Ok(*view),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server that runs on a data directory who its clients are.
///
/// # Errors
/// [`StatusError`] when no server runs there.
pub async fn ask_clients(data: &Path) -> Result<Vec<ClientStatus>, StatusError> {
    match put(data, &Question::Clients, PATIENCE).await? {
        Answer::Clients(clients) => Ok(clients),
        other => Err(unexpected(data, &other)),
    }
}

/// Has the server that runs on a data directory take everything from some clients. Returns those that there were.
///
/// # Errors
/// [`StatusError`] when no server runs there, or there is no such client.
pub async fn ask_evict(
    data: &Path,
    question: EvictQuestion,
) -> Result<Vec<ClientStatus>, StatusError> {
    match put(data, &Question::Evict(question), FAR_PATIENCE).await? {
        Answer::Clients(clients) => Ok(clients),
        other => Err(unexpected(data, &other)),
    }
}

/// Has the server that runs on a data directory read its configuration again.
///
/// # Errors
/// [`StatusError`] when no server runs there, or the configuration is wrong.
pub async fn ask_reload(data: &Path) -> Result<ReloadAnswer, StatusError> {
    match put(data, &Question::Reload, PATIENCE).await? {
        Answer::Reloaded(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server that runs on a data directory what is frozen.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it belongs to no set.
pub async fn ask_frozen(data: &Path) -> Result<Vec<FrozenView>, StatusError> {
    match put(data, &Question::Frozen, PATIENCE).await? {
        Answer::Frozen(frozen) => Ok(frozen),
        other => Err(unexpected(data, &other)),
    }
}

/// Has the set give up what a lost replica alone had, or asks what that would be.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it cannot be done; it says what to do next.
pub async fn ask_thaw(data: &Path, question: ThawQuestion) -> Result<ThawAnswer, StatusError> {
    match put(data, &Question::Thaw(question), FAR_PATIENCE).await? {
        Answer::Thaw(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Has the server that runs on a data directory compare its copy with the others', or asks how far that is.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it belongs to no set.
pub async fn ask_scrub(data: &Path, question: ScrubQuestion) -> Result<ScrubView, StatusError> {
    match put(data, &Question::Scrub(question), PATIENCE).await? {
        Answer::Scrub(scrub) => Ok(scrub),
        other => Err(unexpected(data, &other)),
    }
}

/// Has the server that runs on a data directory hand the set's authority to another member. Says whether that one has
/// confirmed that it keeps it.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not do it; it says what to do next.
pub async fn ask_move_authority(data: &Path, to: u16) -> Result<bool, StatusError> {
    match put(data, &Question::MoveAuthority(to), FAR_PATIENCE).await? {
        Answer::AuthorityMoved(confirmed) => Ok(confirmed),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks the server that runs on a data directory which names lead to other servers.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it belongs to no set.
pub async fn ask_junctions(data: &Path) -> Result<JunctionsStatus, StatusError> {
    match put(data, &Question::Junctions, PATIENCE).await? {
        Answer::Junctions(junctions) => Ok(junctions),
        other => Err(unexpected(data, &other)),
    }
}

/// Has the set agree that a name leads to these servers from now on, or to none.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not do it; it says what to do next.
pub async fn ask_junction(
    data: &Path,
    wish: JunctionStatus,
) -> Result<JunctionAnswer, StatusError> {
    match put(data, &Question::Junction(wish), FAR_PATIENCE).await? {
        Answer::Junction(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Has a metadata server remove a data server that holds no files from its pool.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not do it; it says what to do next.
pub async fn ask_remove_data_server(data: &Path, number: u16) -> Result<(), StatusError> {
    match put(data, &Question::RemoveDataServer(number), FAR_PATIENCE).await? {
        Answer::DataServerRemoved => Ok(()),
        other => Err(unexpected(data, &other)),
    }
}

/// Asks a metadata server where a file lies, by its path from the root of the tree.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it cannot tell; it says what to do next.
pub async fn ask_where(data: &Path, path: String) -> Result<Whereabouts, StatusError> {
    match put(data, &Question::Where(path), FAR_PATIENCE).await? {
        Answer::Whereabouts(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Has a metadata server stripe no new files over a data server, or new files again.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not do it; it says what to do next.
pub async fn ask_drain_data(
    data: &Path,
    question: DrainDataQuestion,
) -> Result<DrainDataAnswer, StatusError> {
    match put(data, &Question::DrainData(question), FAR_PATIENCE).await? {
        Answer::DataDrained(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Has a metadata server spread files over data servers that were added, or no longer.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not do it; it says what to do next.
pub async fn ask_rebalance(
    data: &Path,
    question: RebalanceQuestion,
) -> Result<RebalanceAnswer, StatusError> {
    match put(data, &Question::Rebalance(question), FAR_PATIENCE).await? {
        Answer::Rebalanced(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Has a metadata server give up a data server that is lost, or say what that would mean.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not do it; it says what to do next.
pub async fn ask_forget_data_server(
    data: &Path,
    question: ForgetQuestion,
) -> Result<ForgetAnswer, StatusError> {
    match put(data, &Question::ForgetDataServer(question), FAR_PATIENCE).await? {
        Answer::DataServerForgotten(answer) => Ok(answer),
        other => Err(unexpected(data, &other)),
    }
}

/// Has a metadata server serve with a data server again that is refused since an older copy of its contents was seen. Whether it serves
/// already.
///
/// # Errors
/// [`StatusError`] when no server runs there, or it does not do it; it says what to do next.
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

async fn put(data: &Path, question: &Question, patience: Duration) -> Result<Answer, StatusError> {
    let wrong = |what: String| StatusError::Answer {
        path: data.to_owned(),
        what,
    };
    let question = serde_json::to_vec(question).map_err(|error| wrong(error.to_string()))?;
    let asked = tokio::time::timeout(patience, exchange(data, &question)).await;
    let answer = asked.map_err(|_| wrong("it takes too long".to_owned()))?;
    let answer = answer.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => match is_claimed(data) {
            true => StatusError::Busy(data.to_owned()),
            false => StatusError::NotRunning(data.to_owned()),
        },
        io::ErrorKind::PermissionDenied => StatusError::Permission(data.to_owned()),
        _ => wrong(error.to_string()),
    })?;
    serde_json::from_slice(&answer).map_err(|error| wrong(error.to_string()))
}

async fn exchange(data: &Path, question: &[u8]) -> io::Result<Vec<u8>> {
    let short = ShortPath::of(&control_socket(data))?;
    let mut stream = UnixStream::connect(&short.path).await?;
    stream.write_all(question).await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    (&mut stream)
        .take(ANSWER_BYTES_MAX)
        .read_to_end(&mut answer)
        .await?;
    Ok(answer)
}

/// The socket of a running server. Dropping it ends the answers and removes the socket.
#[derive(Debug)]
pub(crate) struct StatusSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl StatusSocket {
    /// Starts to answer. The data directory must be locked by this process: a socket that is there is
    /// then one that a crash left behind.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub(crate) fn open(data: &Path, answering: Answering) -> io::Result<StatusSocket> {
        let path = control_socket(data);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&ShortPath::of(&path)?.path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let task = tokio::spawn(answer_all(listener, answering));
        Ok(StatusSocket { path, task })
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        self.task.abort();
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "the status socket stays behind");
        }
    }
}

async fn answer_all(listener: UnixListener, answering: Answering) {
    let places = Arc::new(Semaphore::new(QUESTIONS_AT_ONCE));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "somebody's question did not arrive");
                continue;
            }
        };
        let answering = answering.clone();
        tokio::spawn(async move {
            let answered = tokio::time::timeout(FAR_PATIENCE, answer(stream, &answering)).await;
            if let Ok(Err(error)) = answered {
                tracing::debug!(%error, "a question stays without an answer");
            }
            drop(place);
        });
    }
}

async fn answer(mut stream: UnixStream, answering: &Answering) -> io::Result<()> {
    let mut question = Vec::new();
    let mut reading = (&mut stream).take(QUESTION_BYTES_MAX);
    let read = reading.read_to_end(&mut question);
    tokio::time::timeout(PATIENCE, read).await??;
    let answer = match serde_json::from_slice(&question) {
        Ok(question) => answering(question).await,
        Err(error) => Answer::Refused(format!(
            "the server does not know the question ({error}); use the `meridian` of the same version"
        )),
    };
    stream.write_all(&shown(&answer)?).await?;
    stream.shutdown().await
}

/// An answer whose texts, whoever wrote them, can be shown on any terminal. Names of files come here as `vfs::ShownBytes` and stay
/// as they are.
fn shown(answer: &Answer) -> serde_json::Result<Vec<u8>> {
    let mut value = serde_json::to_value(answer)?;
    show_texts(&mut value);
    serde_json::to_vec(&value)
}

fn show_texts(value: &mut Value) {
    match value {
        Value::String(text) => *text = ShownText(text).to_string(),
        Value::Array(values) => values.iter_mut().for_each(show_texts),
        Value::Object(fields) => fields.values_mut().for_each(show_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A path to a socket that fits into the 108 bytes a Unix address has: through the open directory, as
/// `/proc` shows it.
#[derive(Debug)]
struct ShortPath {
    path: PathBuf,
    _directory: fs::File,
}

impl ShortPath {
    fn of(socket: &Path) -> io::Result<ShortPath> {
        let (Some(directory), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let directory = fs::File::open(directory)?;
        let path = Path::new("/proc/self/fd")
            .join(directory.as_raw_fd().to_string())
            .join(name);
        Ok(ShortPath {
            path,
            _directory: directory,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Answering {
        Arc::new(|question| {
            Box::pin(async move {
                match question {
                    Question::Status => Answer::Status(Box::new(Status::example())),
                    _ => Answer::Refused("not now".to_owned()),
                }
            })
        })
    }

    #[tokio::test]
    async fn a_status_arrives_however_long_the_path_is() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("long".repeat(50));
        fs::create_dir(&data).unwrap();
        fs::write(control_socket(&data), "left by a crash").unwrap();
        let socket = StatusSocket::open(&data, example()).unwrap();
        assert_eq!(ask(&data).await.unwrap(), Status::example());
        let mode = fs::metadata(control_socket(&data))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(socket);
        let error = ask(&data).await.unwrap_err();
        assert!(matches!(error, StatusError::NotRunning(_)), "{error}");
        assert!(!control_socket(&data).exists());
    }

    #[tokio::test]
    async fn many_are_answered_at_once_and_one_that_says_nothing_holds_up_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let _socket = StatusSocket::open(directory.path(), example()).unwrap();
        let short = ShortPath::of(&control_socket(directory.path())).unwrap();
        let _silent = UnixStream::connect(&short.path).await.unwrap();
        for _ in 0..3 * QUESTIONS_AT_ONCE {
            assert_eq!(ask(directory.path()).await.unwrap(), Status::example());
        }
    }

    #[tokio::test]
    async fn a_refusal_and_a_question_that_is_none_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let _socket = StatusSocket::open(directory.path(), example()).unwrap();
        let question = DurabilityQuestion {
            path: "/".to_owned(),
            set: None,
        };
        let error = ask_durability(directory.path(), question)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "not now");
        let answer = exchange(directory.path(), b"how?").await.unwrap();
        let answer: Answer = serde_json::from_slice(&answer).unwrap();
        let Answer::Refused(reason) = answer else {
            panic!("{answer:?}");
        };
        assert!(reason.contains("same version"), "{reason}");
    }

    /// A reason that an administrator of another site typed, or a peer's error, forges no alarm and commands no terminal.
    #[tokio::test]
    async fn no_text_of_an_answer_commands_a_terminal() {
        const HOSTILE: &str = "x\n  ALARM storage-failed: \u{1b}[2J\u{202e}";
        let answering: Answering = Arc::new(|question| {
            Box::pin(async move {
                let mut view = ViewStatus::example();
                view.obstacle = Some(HOSTILE.to_owned());
                view.members[2].reason = Some(HOSTILE.to_owned());
                view.losses[0].waits_for = Some(HOSTILE.to_owned());
                match question {
                    Question::View => Answer::View(Box::new(view)),
                    _ => Answer::Refused(HOSTILE.to_owned()),
                }
            })
        });
        let directory = tempfile::tempdir().unwrap();
        let _socket = StatusSocket::open(directory.path(), answering).unwrap();
        let told = ask_view(directory.path()).await.unwrap().to_string();
        let refused = ask(directory.path()).await.unwrap_err().to_string();
        let shown = "x\\u{a}  ALARM storage-failed: \\u{1b}[2J\\u{202e}";
        assert_eq!(told.matches(shown).count(), 3, "{told}");
        assert_eq!(refused, shown);
        let honest = ViewStatus::example();
        let mut honest = honest.to_string().lines().count();
        honest += 1; // The obstacle has a line of its own.
        assert_eq!(told.lines().count(), honest);
    }

    #[tokio::test]
    async fn without_a_server_the_remedy_is_told() {
        let directory = tempfile::tempdir().unwrap();
        for data in [
            directory.path().to_owned(),
            directory.path().join("nowhere"),
        ] {
            let error = ask(&data).await.unwrap_err().to_string();
            assert!(error.contains("meridian serve --data"), "{error}");
        }
    }
}
