//! How `meridian status` gets an answer: a Unix socket in the data directory, which only those who may
//! open that directory can reach. Whoever connects is sent the status as JSON; nothing is read.
//!
//! What must never enter: commands.

use std::fs;
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::Status;
use crate::data_directory::control_socket;

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);
/// No status is larger.
const STATUS_BYTES_MAX: u64 = 16 << 20;

/// Makes a status at each question.
pub(crate) type StatusSource =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Status> + Send>> + Send + Sync>;

/// Why there is no status. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// No server answers.
    #[error(
        "no server runs on {0}; start one with `meridian serve --data {0}`, or name another directory with --data"
    )]
    NotRunning(PathBuf),
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
}

/// Asks the server that runs on a data directory.
///
/// # Errors
/// [`StatusError`] when none does, or it does not answer.
pub async fn ask(data: &Path) -> Result<Status, StatusError> {
    let wrong = |what: String| StatusError::Answer {
        path: data.to_owned(),
        what,
    };
    let asked = tokio::time::timeout(PATIENCE, receive(data)).await;
    let answer = asked.map_err(|_| wrong("it takes too long".to_owned()))?;
    let answer = answer.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            StatusError::NotRunning(data.to_owned())
        }
        io::ErrorKind::PermissionDenied => StatusError::Permission(data.to_owned()),
        _ => wrong(error.to_string()),
    })?;
    serde_json::from_slice(&answer).map_err(|error| wrong(error.to_string()))
}

async fn receive(data: &Path) -> io::Result<Vec<u8>> {
    let short = ShortPath::of(&control_socket(data))?;
    let mut stream = UnixStream::connect(&short.path).await?;
    let mut answer = Vec::new();
    (&mut stream)
        .take(STATUS_BYTES_MAX)
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
    pub(crate) fn open(data: &Path, source: StatusSource) -> io::Result<StatusSocket> {
        let path = control_socket(data);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&ShortPath::of(&path)?.path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let task = tokio::spawn(answer_all(listener, source));
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

async fn answer_all(listener: UnixListener, source: StatusSource) {
    loop {
        let answered = match listener.accept().await {
            Ok((stream, _)) => tokio::time::timeout(PATIENCE, answer(stream, &source)).await,
            Err(error) => Ok(Err(error)),
        };
        if let Ok(Err(error)) = answered {
            tracing::debug!(%error, "a question about the status stays without an answer");
        }
    }
}

async fn answer(mut stream: UnixStream, source: &StatusSource) -> io::Result<()> {
    let status = serde_json::to_vec(&source().await)?;
    stream.write_all(&status).await?;
    stream.shutdown().await
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

    fn example() -> StatusSource {
        Arc::new(|| Box::pin(async { Status::example() }))
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
