//! The server's side of questions: a Unix socket in the data directory, which only users with access to that directory
//! can reach. A program connects, writes one question and reads one answer.
//!
//! What must never enter: the meaning of questions.

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

use super::question::{Answer, Question};
use crate::data_directory::control_socket;

/// How long either side waits for the other.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The timeout for a question that involves other replicas.
pub(super) const FAR_PATIENCE: Duration = Duration::from_secs(60);
/// The maximum size of an answer: the code that answers bounds its lists and texts.
pub(super) const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The maximum size of a question: many times the size of a path.
pub(super) const QUESTION_BYTES_MAX: u64 = 64 << 10;
/// How long to wait when the operating system has no space for another connection.
const PAUSE: Duration = Duration::from_millis(200);
/// How often a server looks whether its socket is still there, while nobody asks.
const LOOK: Duration = Duration::from_secs(2);
/// The number of questions that are answered concurrently; more wait.
const QUESTIONS_AT_ONCE: usize = 16;

/// Answers questions.
pub(crate) type Answering =
    Arc<dyn Fn(Question) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

/// The socket of a running server. Dropping it ends the answers and removes the socket.
#[derive(Debug)]
pub(crate) struct StatusSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl StatusSocket {
    /// Starts answering. This process must hold the lock of the data directory: then an existing socket is left over
    /// from a crash.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub(crate) fn open(data: &Path, answering: Answering) -> io::Result<StatusSocket> {
        let path = control_socket(data);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = listen(&path)?;
        let task = tokio::spawn(answer_all(path.clone(), listener, answering));
        Ok(StatusSocket { path, task })
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(&ShortPath::of(path)?.path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Waits for a question. If somebody removes the socket, it is made again.
async fn next_question(path: &Path, listener: &mut UnixListener) -> io::Result<UnixStream> {
    loop {
        if let Ok(accepted) = tokio::time::timeout(LOOK, listener.accept()).await {
            return accepted.map(|(stream, _)| stream);
        }
        if !path.try_exists().unwrap_or(true) {
            *listener = listen(path)?;
            tracing::warn!(path = %path.display(), "the control socket was removed, and is made again");
        }
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

async fn answer_all(path: PathBuf, mut listener: UnixListener, answering: Answering) {
    let places = Arc::new(Semaphore::new(QUESTIONS_AT_ONCE));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let stream = match next_question(&path, &mut listener).await {
            Ok(stream) => stream,
            Err(error) => {
                // Usually the process is out of file descriptors: an immediate retry would fail again.
                tracing::debug!(%error, "somebody's question did not arrive");
                drop(place);
                tokio::time::sleep(PAUSE).await;
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
    let mut reading = (&mut stream).take(QUESTION_BYTES_MAX + 1);
    let read = reading.read_to_end(&mut question);
    tokio::time::timeout(PATIENCE, read).await??;
    let is_too_long = question.len() as u64 > QUESTION_BYTES_MAX;
    if is_too_long {
        // The client reads the answer only if the whole question was received.
        let mut nowhere = tokio::io::sink();
        let rest = tokio::io::copy(&mut stream, &mut nowhere);
        tokio::time::timeout(PATIENCE, rest).await??;
    }
    let answer = match serde_json::from_slice(&question) {
        _ if is_too_long => Answer::Refused(too_long()),
        Ok(question) => answering(question).await,
        Err(error) => Answer::Refused(format!(
            "the server does not know the question ({error}); use the `meridian` of the same version"
        )),
    };
    let mut bytes = shown(&answer)?;
    if bytes.len() as u64 > ANSWER_BYTES_MAX {
        let refusal = format!(
            "the answer has {} bytes, more than a question is answered with; report this as a fault of this program",
            bytes.len()
        );
        bytes = shown(&Answer::Refused(refusal))?;
    }
    stream.write_all(&bytes).await?;
    stream.shutdown().await
}

pub(super) fn too_long() -> String {
    format!(
        "what was given on the command line is too long: all of it together may have {} KiB; shorten it",
        QUESTION_BYTES_MAX >> 10
    )
}

/// Encodes an answer so that its texts are safe on any terminal, whatever their source. Names of files come here as
/// `vfs::ShownBytes` and stay unchanged.
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

/// A path to a socket that fits into the 108 bytes of a Unix address: through the open directory, by `/proc`.
#[derive(Debug)]
pub(super) struct ShortPath {
    pub(super) path: PathBuf,
    _directory: fs::File,
}

impl ShortPath {
    pub(super) fn of(socket: &Path) -> io::Result<ShortPath> {
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
    use super::super::asking::{ask, ask_durability, ask_view, exchange, put};
    use super::super::{
        ClientStatus, DurabilityQuestion, Rows, Status, StatusError, ThawQuestion, ViewText,
    };
    use super::*;
    use crate::status::examples;

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

    fn client(name: &str) -> ClientStatus {
        ClientStatus::from(&nfs4_server::ClientView {
            id: nfs4_server::ClientId(u64::MAX),
            address: std::net::Ipv6Addr::UNSPECIFIED.into(),
            owner: name.as_bytes().into(),
            implementation: name.to_owned(),
            minor_version: 2,
            known: Duration::MAX,
            silent: Duration::MAX,
            sessions: usize::MAX,
            opens: usize::MAX,
            locks: usize::MAX,
        })
    }

    /// 4,000 clients with names of a kilobyte each made an answer that was too large to be received.
    #[test]
    fn as_many_clients_as_there_may_be_fit_in_an_answer() {
        for name in [
            "\u{1b}".repeat(1024),
            "\\".repeat(1024),
            "\u{1f600}".repeat(256),
        ] {
            let clients = std::iter::repeat_with(|| client(&name)).take(20_000);
            let answer = shown(&Answer::Clients(Rows::of(clients))).unwrap();
            assert!((answer.len() as u64) < ANSWER_BYTES_MAX, "{}", answer.len());
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let long: Answering = Arc::new(|_| {
            let words = "x".repeat(ANSWER_BYTES_MAX as usize);
            Box::pin(async move { Answer::Refused(words) })
        });
        let _socket = StatusSocket::open(directory.path(), long).unwrap();
        let told = ask(directory.path()).await.unwrap_err().to_string();
        assert!(
            told.contains("more than a question is answered with"),
            "{told}"
        );
    }

    /// A question that was too long ended with a reset connection.
    #[tokio::test]
    async fn a_question_that_is_too_long_is_refused_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let _socket = StatusSocket::open(data, example()).unwrap();
        for bytes in [QUESTION_BYTES_MAX, 4 << 20] {
            let question = Question::Thaw(ThawQuestion {
                lost: 1,
                reason: "x".repeat(bytes as usize),
                meant: true,
            });
            let told = put(data, &question, PATIENCE).await.unwrap_err();
            assert!(matches!(told, StatusError::Refused(what) if what.contains("shorten it")));
            // Another program gets the same error.
            let question = serde_json::to_vec(&question).unwrap();
            let answer = exchange(data, &question).await.unwrap();
            let answer = serde_json::from_slice::<Answer>(&answer).unwrap();
            assert!(matches!(answer, Answer::Refused(what) if what.contains("shorten it")));
        }
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
        fs::remove_file(control_socket(&data)).unwrap();
        while !control_socket(&data).exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(ask(&data).await.unwrap(), Status::example());
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

    /// A reason that an administrator of another site typed, or a peer's error, must not imitate an alarm or control a terminal.
    #[tokio::test]
    async fn no_text_of_an_answer_commands_a_terminal() {
        const HOSTILE: &str = "x\n  ALARM storage-failed: \u{1b}[2J\u{202e}";
        let answering: Answering = Arc::new(|question| {
            Box::pin(async move {
                let mut view = examples::view();
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
        let told = ask_view(directory.path()).await.unwrap();
        let told = ViewText(&told).to_string();
        let refused = ask(directory.path()).await.unwrap_err().to_string();
        let shown = "x\\u{a}  ALARM storage-failed: \\u{1b}[2J\\u{202e}";
        assert_eq!(told.matches(shown).count(), 3, "{told}");
        assert_eq!(refused, shown);
        let honest = examples::view();
        let mut honest = ViewText(&honest).to_string().lines().count();
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
