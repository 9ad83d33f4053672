//! `GET /healthz`, for monitoring programs: whether the server answers its clients.
//!
//! What must never enter: other problems; the alarms of a status report those.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};

use crate::status::Status;

/// The path of this page.
pub(crate) const PATH: &str = "/healthz";

/// Alarms that mean that the server does not answer its clients.
const ANSWERS_NOBODY: [&str; 4] = ["no-lease", "outside-the-view", "removed", "storage-failed"];

/// Returns the current state of the server; `None` when it has stopped.
pub(crate) type Asked =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Status>> + Send>> + Send + Sync>;

/// Answers 200 while clients are answered, otherwise 503, with the reason.
pub(crate) fn route<S: Clone + Send + Sync + 'static>(asked: Asked) -> MethodRouter<S> {
    get(move || {
        let asked = asked.clone();
        async move {
            let (status, text) = verdict(asked().await.as_ref());
            (status, [(header::CONNECTION, "close")], text).into_response()
        }
    })
}

fn verdict(status: Option<&Status>) -> (StatusCode, String) {
    let Some(status) = status else {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    };
    let alarms = status.alarms.iter();
    let ailments = alarms.filter(|alarm| ANSWERS_NOBODY.contains(&&*alarm.name));
    match ailments
        .map(|alarm| format!("{alarm}\n"))
        .collect::<String>()
    {
        none if none.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
        why => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Alarm;

    #[test]
    fn only_what_keeps_clients_waiting_is_an_ailment() {
        let mut status = Status::example();
        let alarm = |name: &str| Alarm {
            name: name.to_owned(),
            tree: "default".to_owned(),
            what: "so it is".to_owned(),
        };
        status.alarms = vec![alarm("disk-nearly-full"), alarm("two-voters")];
        assert_eq!(verdict(Some(&status)).0, StatusCode::OK);
        status.alarms.push(alarm("no-lease"));
        let (code, text) = verdict(Some(&status));
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "no-lease: so it is\n");
        assert_eq!(verdict(None).0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
