//! Answers about the state of a running process: figures, why a key is forwarded or not, compaction.
//!
//! What is asked for comes in the body of a request, never in its URL, and is not logged. Only this
//! machine may ask unless the config says otherwise, and no web page may: a browser names its origin,
//! and cannot send JSON to another one without asking first.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use tokio::sync::Semaphore;

/// The longest body that is taken: a record's parts in hexadecimal.
const BODY_MAX: usize = 8 << 20;

/// How many questions are worked on at a time; more are refused.
const AT_A_TIME: usize = 2;

/// What is asked, the body as it came.
#[derive(Debug)]
pub enum StateQuestion {
    /// The figures of every partition.
    Stats,
    /// What would become of a record.
    Explain(Bytes),
    /// To compact some more.
    Compact(Bytes),
}

/// An answer: an HTTP status, and JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateAnswer {
    /// The status.
    pub status: u16,
    /// The body.
    pub json: String,
}

/// Who knows the answers. May read the disk; called on a thread that may wait.
pub trait StateDesk: Send + Sync + fmt::Debug {
    /// Answers.
    fn answer(&self, question: StateQuestion) -> StateAnswer;
}

/// The routes below `/state`.
#[derive(Clone, Debug)]
pub struct StateRoutes {
    /// Who answers.
    pub desk: Arc<dyn StateDesk>,
    /// Whether other machines may ask, too.
    pub anywhere: bool,
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

#[derive(Clone, Debug)]
struct Asked {
    desk: Arc<dyn StateDesk>,
    places: Arc<Semaphore>,
}

impl StateRoutes {
    pub(super) fn router(self) -> Router {
        let anywhere = self.anywhere;
        let places = Arc::new(Semaphore::new(AT_A_TIME));
        Router::new()
            .route("/state/stats", get(stats))
            .route("/state/explain", post(explain))
            .route("/state/compact", post(compact))
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .layer(middleware::from_fn(
                move |peer: Extension<Peer>, request: Request, next: Next| {
                    guard(anywhere, peer.0, request, next)
                },
            ))
            .with_state(Asked { desk: self.desk, places })
    }
}

async fn guard(anywhere: bool, peer: Peer, request: Request, next: Next) -> Response {
    match why_not(anywhere, peer, request.headers()) {
        Some(why) => refuse(StatusCode::FORBIDDEN, why),
        None => next.run(request).await,
    }
}

fn why_not(anywhere: bool, Peer(peer): Peer, headers: &HeaderMap) -> Option<&'static str> {
    if !anywhere && !peer.ip().to_canonical().is_loopback() {
        return Some("only this machine may ask about the state");
    }
    let page = headers.contains_key(header::ORIGIN) || !host_is_plain(headers);
    page.then_some("no web page may ask about the state")
}

/// A page that lets its own name lead to this machine is told by that name.
fn host_is_plain(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.chars().all(|c| c.is_ascii_digit()) { name } else { host }
    });
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok()
}

async fn stats(State(asked): State<Asked>) -> Response {
    asked.answer(StateQuestion::Stats).await
}

async fn explain(State(asked): State<Asked>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_json(&headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON");
    }
    asked.answer(StateQuestion::Explain(body)).await
}

async fn compact(State(asked): State<Asked>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_json(&headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON");
    }
    asked.answer(StateQuestion::Compact(body)).await
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == b"application/json")
}

impl Asked {
    async fn answer(self, question: StateQuestion) -> Response {
        let Ok(_place) = self.places.try_acquire() else {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "others are asking; try again soon");
        };
        let desk = self.desk;
        match tokio::task::spawn_blocking(move || desk.answer(question)).await {
            Ok(StateAnswer { status, json }) => {
                let status =
                    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
            }
            Err(error) => {
                tracing::error!(%error, "answering about the state failed");
                refuse(StatusCode::INTERNAL_SERVER_ERROR, "answering failed; see the log")
            }
        }
    }
}

fn refuse(status: StatusCode, why: &'static str) -> Response {
    let body = serde_json::json!({ "error": why }).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
