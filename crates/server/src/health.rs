//! `GET /healthz`, for machines that look after servers: whether clients are answered.
//!
//! What must never enter: what else deserves attention; the alarms of a status say that.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};

use crate::status::Status;

/// Where it is answered.
pub(crate) const PATH: &str = "/healthz";

/// Alarms of a server that does not answer its clients.
const ANSWERS_NOBODY: [&str; 4] = ["no-lease", "outside-the-view", "removed", "storage-failed"];

/// Says how the server is, at each question; nothing when it has stopped.
pub(crate) type Asked =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Status>> + Send>> + Send + Sync>;

/// Answers 200 while clients are answered, else 503, each with a word why.
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
