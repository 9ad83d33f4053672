//! A small HTTP server for browsers: which requests it answers, and with which headers.
//!
//! What must never enter: anything that changes the server, and the content of the page.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use tokio::sync::{Mutex, watch};

use super::host;
use super::picture::{Facts, Picture};
use crate::health;
use crate::short_connections;

/// The status page cannot be offered there.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot offer the status page at {address}: {source}; set `listen` in [page] to another address, or to \"off\""
)]
pub struct PageError {
    address: SocketAddr,
    source: io::Error,
}

/// Returns the current state of everything; `None` when the server has stopped.
pub(crate) type Source =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Facts>> + Send>> + Send + Sync>;

/// The server is asked at most once in this time, however many browsers watch.
const FRESH: Duration = Duration::from_secs(1);

/// The timeout for asking the server for its state.
const PATIENCE: Duration = Duration::from_secs(5);

/// The answer to a request under an unknown name.
const MISDIRECTED: &str = "This page is answered to browsers that ask for it by an address, as localhost, or by a name that `names` in [page] of the server's configuration lists.\n";

/// Headers of every answer. No page of another site can show, read or embed these answers.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    // One request per connection, so that idle browsers take no places.
    (header::CONNECTION, "close"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// What the changing part of the page may load or run: nothing.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// The fixed page around the changing part.
#[derive(Template)]
#[template(path = "page.html")]
struct Frame<'p> {
    /// Only style and script with this nonce are accepted by browsers, so that injected ones are ignored.
    nonce: String,
    /// The changing part: HTML, escaped where it was created.
    now: &'p str,
}

struct Page {
    source: Source,
    /// The names under which it may be requested, in addition to addresses and `localhost`.
    names: Vec<String>,
    /// The last rendered picture, and its time.
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

/// Answers browsers that request the page by an address, as `localhost` or under one of these names, until `stop`
/// becomes true. Returns the address.
///
/// # Errors
/// [`PageError`] when it cannot listen there.
pub(crate) async fn serve(
    address: SocketAddr,
    names: Vec<String>,
    source: Source,
    health: health::Asked,
    stop: watch::Receiver<bool>,
) -> Result<SocketAddr, PageError> {
    let page = Page {
        source,
        names,
        last: Mutex::default(),
    };
    let routes = routes(Arc::new(page), health);
    let bound = short_connections::answer(address, routes, stop, "the status page").await;
    bound.map_err(|source| PageError { address, source })
}

fn routes(page: Arc<Page>, health: health::Asked) -> Router {
    Router::new()
        .route("/", get(whole))
        .route("/now", get(changing))
        .route(health::PATH, health::route(health))
        .fallback(nothing_here)
        .layer(middleware::from_fn_with_state(page.clone(), guard))
        .layer(middleware::map_response(with_headers))
        .with_state(page)
}

/// Refuses requests under the name of another server.
async fn guard(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    if is_expected(request.headers(), &page.names) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, MISDIRECTED).into_response()
}

fn is_expected(headers: &HeaderMap, names: &[String]) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next().map(HeaderValue::to_str), hosts.next()) {
        (Some(Ok(host)), None) => host::is_expected(host, names),
        _ => false,
    }
}

async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static(NOTHING));
    response
}

async fn nothing_here() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "There is only one page, at /.\n")
}

async fn whole(State(page): State<Arc<Page>>) -> Result<impl IntoResponse, Failure> {
    let now = page.now().await?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| Failure::Drawing)?;
    let nonce = format!("{:032x}", u128::from_be_bytes(random));
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let frame = Frame { nonce, now: &now };
    let html = frame.render().map_err(|_| Failure::Drawing)?;
    Ok(([(header::CONTENT_SECURITY_POLICY, policy)], Html(html)))
}

async fn changing(State(page): State<Arc<Page>>) -> Result<Html<String>, Failure> {
    Ok(Html(page.now().await?.to_string()))
}

impl Page {
    /// The changing part, at most one second old.
    async fn now(&self) -> Result<Arc<str>, Failure> {
        let mut last = self.last.lock().await;
        if let Some((at, drawn)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(drawn.clone());
        }
        let facts = tokio::time::timeout(PATIENCE, (self.source)()).await;
        let facts = facts.map_err(|_| Failure::Slow)?;
        let facts = facts.ok_or(Failure::Stopped)?;
        let drawn = Picture::new(&facts).render();
        let drawn: Arc<str> = drawn.map_err(|_| Failure::Drawing)?.into();
        *last = Some((Instant::now(), drawn.clone()));
        Ok(drawn)
    }
}

/// Why there is no page.
enum Failure {
    Slow,
    Stopped,
    Drawing,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Failure::Slow => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The server takes too long to say how it is; `meridian status` and the log may tell why.\n",
            ),
            Failure::Stopped => (StatusCode::SERVICE_UNAVAILABLE, "The server is stopping.\n"),
            Failure::Drawing => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "The page could not be drawn; `meridian status` says the same.\n",
            ),
        };
        (status, text).into_response()
    }
}
