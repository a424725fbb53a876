//! The HTTP server: a few read-only pages, on a thread of its own.
//!
//! It can be starved, never the flow: it has its own single-threaded runtime, takes a bounded
//! number of connections at a time, cuts clients that are slow to ask or to listen, and reads the
//! board by snapshot.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::state::{Peer, StateRoutes};
use super::{CONTENT_TYPE, Metrics, Report, health};
use crate::words::{Board, Code, Coded};

/// The most a request may take up before its body, in bytes. The server's least possible.
const HEADER_MAX_BYTES: usize = 8 * 1024;

/// How long to wait after an accept that failed, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a client may take to send a request's head, or to stay idle between two.
    pub header_timeout: Duration,
    /// How long one connection may last in all.
    pub connection_timeout: Duration,
    /// How many connections are served at a time; others wait in the system's queue.
    pub connections: usize,
    /// How long the poll loop may be silent before the process counts as dead.
    pub live_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(5),
            connection_timeout: Duration::from_secs(60),
            connections: 64,
            live_after: Duration::from_secs(60),
        }
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be bound, as where another process has it.
    #[error("failed to listen on status address `{addr}`")]
    Listen {
        /// The address of `[status] listen`.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system gave no thread or event queue.
    #[error("failed to start the status server's {what}")]
    Start {
        /// What was to be started.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl Coded for Error {
    fn code(&self) -> Code {
        Code::StatusListen
    }

    fn fix(&self) -> String {
        match self {
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                "stop the process that has this port, or set another one in `status.listen`".into()
            }
            Self::Listen { .. } => {
                "set `status.listen` to an address of this machine and a port you may use".into()
            }
            Self::Start { .. } => {
                "raise the limits on threads and open files, or set `status.listen` to `off`".into()
            }
        }
    }
}

/// The running server. Stops when dropped.
#[derive(Debug)]
pub struct StatusServer {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves `board` on `addr`, with the usual limits. Port 0 takes any free port.
///
/// # Errors
/// [`Error::Listen`] where the address cannot be bound; [`Error::Start`] for want of resources.
pub fn serve(addr: SocketAddr, board: Arc<Board>) -> Result<StatusServer, Error> {
    serve_with(addr, board, Limits::default())
}

/// Serves `board` on `addr` within `limits`.
///
/// # Errors
/// As for [`serve`].
pub fn serve_with(
    addr: SocketAddr,
    board: Arc<Board>,
    limits: Limits,
) -> Result<StatusServer, Error> {
    serve_all(addr, board, limits, None)
}

/// Serves `board` on `addr` within `limits`, and answers about the state where `state` is given.
///
/// # Errors
/// As for [`serve`].
pub fn serve_all(
    addr: SocketAddr,
    board: Arc<Board>,
    limits: Limits,
    state: Option<StateRoutes>,
) -> Result<StatusServer, Error> {
    let listen = |source| Error::Listen { addr, source };
    let listener = TcpListener::bind(addr).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let start = |what| move |source| Error::Start { what, source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(start("event queue"))?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener).map_err(listen)?
    };
    let (stop, stopped) = oneshot::channel();
    let router = router(board, limits, state);
    let thread = std::thread::Builder::new()
        .name("status".into())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    // Dropping the sender stops it, too.
                    _ = stopped => {}
                    () = accept(listener, router, limits) => {}
                }
            });
        })
        .map_err(start("thread"))?;
    tracing::info!(address = %bound, "serving status");
    Ok(StatusServer { addr: bound, stop: Some(stop), thread: Some(thread) })
}

impl StatusServer {
    /// Returns the address it listens on, with the port that was taken.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops: closes the listener and every connection, and waits until that is done.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the status server panicked");
        }
    }
}

/// Accepts connections for ever, at most `limits.connections` at a time.
async fn accept(listener: tokio::net::TcpListener, router: Router, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let router = router.clone().layer(Extension(Peer(peer)));
                drop(tokio::spawn(answer(stream, router, limits, place)));
            }
            Err(error) => {
                tracing::debug!(%error, "failed to accept a status connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection until either side has enough.
async fn answer(stream: TcpStream, router: Router, limits: Limits, place: OwnedSemaphorePermit) {
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(HEADER_MAX_BYTES);
    let connection =
        server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(limits.connection_timeout, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error, "a status connection ended early"),
        Err(_) => tracing::debug!("a status connection lasted too long"),
    }
    drop(place);
}

/// What the pages are made from.
#[derive(Debug)]
struct Shown {
    board: Arc<Board>,
    metrics: Metrics,
    live_after: Duration,
}

fn router(board: Arc<Board>, limits: Limits, state: Option<StateRoutes>) -> Router {
    let metrics = Metrics::new(Arc::clone(&board));
    let shown = Shown { board, metrics, live_after: limits.live_after };
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics_page))
        .route("/health/live", get(live_page))
        .route("/health/ready", get(ready_page))
        .with_state(Arc::new(shown))
        .merge(state.map_or_else(Router::new, StateRoutes::router))
}

async fn index(State(shown): State<Arc<Shown>>) -> String {
    let snapshot = shown.board.snapshot();
    let mode = snapshot.mode.map_or("not decided yet", |mode| mode.name);
    format!(
        "firstseen {}\ndelivery: {mode}\npartitions: {}\n\n/metrics\n/health/live\n/health/ready\n",
        env!("CARGO_PKG_VERSION"),
        snapshot.partitions.len(),
    )
}

async fn metrics_page(State(shown): State<Arc<Shown>>) -> Response {
    match shown.metrics.render() {
        Ok(page) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], page).into_response(),
        Err(error) => {
            tracing::error!(%error, "failed to render metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn live_page(State(shown): State<Arc<Shown>>) -> Response {
    page(health::live(&shown.board.snapshot(), shown.live_after))
}

async fn ready_page(State(shown): State<Arc<Shown>>) -> Response {
    page(health::ready(&shown.board.snapshot()))
}

fn page(report: Report) -> Response {
    let status = if report.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, report.text).into_response()
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
