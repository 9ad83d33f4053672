//! HTTP connections that are limited in number and time, so that no client can block others, or the server, with them.
//!
//! What must never enter: the content of requests.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time::{Sleep, sleep};

/// The maximum number of open connections; for one more, the oldest is closed.
pub(crate) const CONNECTIONS_MAX: usize = 16;

/// The maximum time of one connection, headers and answer included. Each carries one request.
const LIFETIME: Duration = Duration::from_secs(15);

/// The pause between attempts to accept when descriptors or memory are lacking.
const PAUSE: Duration = Duration::from_millis(500);

/// Binds a port and answers these routes there, until `stop` becomes true. Returns the address. `what` is for the log
/// if the service ends in another way.
///
/// # Errors
/// Errors of the system, when the port cannot be used.
pub(crate) async fn answer(
    address: SocketAddr,
    routes: Router,
    mut stop: watch::Receiver<bool>,
    what: &'static str,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move {
        let stopped = async move {
            // An error means that the server is gone, which also is a reason to stop.
            let _ = stop.wait_for(|stop| *stop).await;
        };
        let served = axum::serve(BoundedListener::new(listener), routes)
            .with_graceful_shutdown(stopped)
            .await;
        if let Err(error) = served {
            tracing::error!(%error, what, "a port is no longer answered");
        }
    });
    Ok(bound)
}

/// A port that accepts connections.
struct BoundedListener {
    listener: TcpListener,
    /// To close the open connections, the oldest first.
    open: VecDeque<oneshot::Sender<()>>,
}

impl BoundedListener {
    fn new(listener: TcpListener) -> BoundedListener {
        let open = VecDeque::new();
        BoundedListener { listener, open }
    }

    /// Makes room for one more connection, which would otherwise wait for those that send nothing.
    fn make_space(&mut self) -> oneshot::Receiver<()> {
        self.open.retain(|open| !open.is_closed());
        if self.open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = self.open.pop_front()
        {
            // It may have ended in the meantime.
            let _ = oldest.send(());
        }
        let (ends, end) = oneshot::channel();
        self.open.push_back(ends);
        end
    }
}

impl axum::serve::Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let taken = self.make_space();
                    return (BoundedStream::new(stream, taken), peer);
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection over HTTP did not arrive");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when its time is over, or when its place is needed.
pub(crate) struct BoundedStream {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    /// Signals that the place is needed, at most once.
    taken: Option<oneshot::Receiver<()>>,
}

impl BoundedStream {
    fn new(stream: TcpStream, taken: oneshot::Receiver<()>) -> BoundedStream {
        BoundedStream {
            stream,
            end: Box::pin(sleep(LIFETIME)),
            taken: Some(taken),
        }
    }

    /// Fails when the time is over or the place is taken. Otherwise registers the task to be woken then.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let Some(taken) = &mut self.taken
            && let Poll::Ready(said) = Pin::new(taken).poll(context)
        {
            // If the sender is gone without a signal, the listener is gone; that ends no answer.
            self.taken = None;
            if said.is_ok() {
                self.end.as_mut().reset(tokio::time::Instant::now());
            }
        }
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Silent connections in all places kept all other clients waiting.
    #[tokio::test]
    async fn silent_connections_make_space_for_a_question() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/", get(|| async { "well" }));
        tokio::spawn(axum::serve(BoundedListener::new(listener), routes).into_future());
        let mut silent = Vec::new();
        for _ in 0..3 * CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut asking = TcpStream::connect(address).await.unwrap();
        let question = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        asking.write_all(question).await.unwrap();
        let mut answer = String::new();
        asking.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("well"), "{answer}");
        // The first ones have been closed.
        let ended = silent[0].read(&mut [0]).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
}
