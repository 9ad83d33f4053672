//! Connections of browsers, so few and so short that nobody can hold up others, or the server, with them.
//!
//! What must never enter: what is said over them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// So many are open at a time; more wait until one of these ends.
const CONNECTIONS_MAX: usize = 16;

/// How long one lasts at most. Each carries one request.
const LIFETIME: Duration = Duration::from_secs(15);

/// Between attempts to accept, when files or memory are lacking.
const PAUSE: Duration = Duration::from_millis(500);

/// A port that accepts connections.
pub(super) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl BoundedListener {
    pub(super) fn new(listener: TcpListener) -> BoundedListener {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        BoundedListener { listener, places }
    }
}

impl axum::serve::Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        loop {
            let place = self.places.clone().acquire_owned().await;
            let place = place.expect("nobody closes the semaphore");
            match self.listener.accept().await {
                Ok((stream, peer)) => return (BoundedStream::new(stream, place), peer),
                Err(error) => {
                    tracing::debug!(%error, "a browser's connection did not arrive");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when its time is over.
pub(super) struct BoundedStream {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl BoundedStream {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit) -> BoundedStream {
        BoundedStream {
            stream,
            end: Box::pin(sleep(LIFETIME)),
            _place: place,
        }
    }

    /// Fails when the time is over, and has the task woken then otherwise.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
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
