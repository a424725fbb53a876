//! Over a real socket: what is answered, and which clients are cut.

use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use super::*;
use crate::status::metrics::tests::parse;
use crate::words::{ManualClock, PartitionState, SourcePartition, Timestamp};

const ANY_PORT: &str = "127.0.0.1:0";

/// Longer than anything here should take; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

fn quick() -> Limits {
    Limits { header_timeout: Duration::from_millis(100), ..Limits::default() }
}

fn start(limits: Limits) -> (StatusServer, Arc<Board>, ManualClock) {
    let clock = ManualClock::at(Timestamp(0));
    let board = Arc::new(Board::manual(clock.clone()));
    let server = serve_with(ANY_PORT.parse().unwrap(), Arc::clone(&board), limits).unwrap();
    (server, board, clock)
}

fn connect(server: &StatusServer) -> std::net::TcpStream {
    let stream = std::net::TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends `request` and reads until the server closes; returns what it said.
fn exchange(server: &StatusServer, request: &[u8]) -> String {
    let mut stream = connect(server);
    stream.write_all(request).unwrap();
    read_to_close(&mut stream)
}

fn read_to_close(stream: &mut std::net::TcpStream) -> String {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        // What a close with unread bytes looks like to the peer.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server did not close: {error}"),
    }
    String::from_utf8(answer).unwrap()
}

fn ask(server: &StatusServer, path: &str) -> (u16, String) {
    request(server, "GET", path)
}

fn request(server: &StatusServer, method: &str, path: &str) -> (u16, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let answer = exchange(server, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn ready_and_live_follow_the_board() {
    let (server, board, clock) = start(Limits::default());
    assert_eq!(ask(&server, "/health/ready").0, 503);
    let orders = board.assign(&[SourcePartition::new("orders", 3)]).remove(0);
    orders.set_state(PartitionState::Waiting);
    let (status, body) = ask(&server, "/health/ready");
    assert_eq!(status, 503);
    assert_eq!(body, "not ready: 0 of 1 partitions running\norders/3: waiting\n");
    orders.set_state(PartitionState::Running);
    assert_eq!(ask(&server, "/health/ready"), (200, "ready: 1 partitions running\n".into()));
    orders.set_stuck("the output could not be read to its end");
    assert_eq!(ask(&server, "/health/ready").0, 503);
    assert_eq!(ask(&server, "/health/live").0, 200);
    clock.set(Timestamp(60_001));
    assert_eq!(ask(&server, "/health/live").0, 503);
    board.beat();
    assert_eq!(ask(&server, "/health/live").0, 200);
}

#[test]
fn metrics_are_served_in_the_format_they_claim() {
    let (server, board, _) = start(Limits::default());
    board.assign(&[SourcePartition::new("orders", 0)]);
    let answer =
        exchange(&server, b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-type: {CONTENT_TYPE}")), "{head}");
    assert_eq!(parse(body)["firstseen_assigned"], 1.0);
}

#[test]
fn the_index_names_the_pages_and_nothing_can_be_written() {
    let (server, ..) = start(Limits::default());
    let (status, body) = ask(&server, "/");
    assert_eq!(status, 200);
    for page in ["/metrics", "/health/live", "/health/ready"] {
        assert!(body.contains(page));
        assert_eq!(request(&server, "POST", page).0, 405);
        assert_eq!(request(&server, "DELETE", page).0, 405);
    }
    assert_eq!(ask(&server, "/shutdown").0, 404);
}

#[test]
fn a_client_that_does_not_finish_its_request_is_cut() {
    let (server, ..) = start(quick());
    let began = Instant::now();
    for start in [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), b"G", b""] {
        let mut stream = connect(&server);
        stream.write_all(start).unwrap();
        let answer = read_to_close(&mut stream);
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn a_connection_that_idles_after_an_answer_is_cut() {
    let (server, ..) = start(quick());
    let answer = exchange(&server, b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_client_that_never_ends_is_cut_in_the_end() {
    let limits = Limits { connection_timeout: Duration::from_millis(100), ..Limits::default() };
    let (server, ..) = start(limits);
    assert_eq!(exchange(&server, b"GET / HT"), "");
}

#[test]
fn a_head_over_eight_kibibytes_is_refused() {
    let (server, ..) = start(Limits::default());
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "x".repeat(9 * 1024));
    let answer = exchange(&server, head.as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_eq!(ask(&server, "/").0, 200);
}

#[test]
fn clients_over_the_cap_wait_until_silent_ones_are_cut() {
    let limits = Limits { connections: 2, ..quick() };
    let (server, ..) = start(limits);
    let mut silent: Vec<_> = (0..2).map(|_| connect(&server)).collect();
    assert_eq!(ask(&server, "/health/live").0, 200);
    for stream in &mut silent {
        assert_eq!(read_to_close(stream), "");
    }
}

#[test]
fn an_address_in_use_is_named_with_its_code_and_fix() {
    let (server, board, _) = start(Limits::default());
    let error = serve(server.addr(), board).unwrap_err();
    assert_eq!(error.code(), Code::StatusListen);
    assert_eq!(
        error.to_string(),
        format!("failed to listen on status address `{}`", server.addr()),
    );
    assert!(error.fix().contains("status.listen"));
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.downcast_ref::<io::Error>().unwrap().kind(), ErrorKind::AddrInUse);
}

#[test]
fn shutting_down_closes_connections_and_frees_the_port() {
    let (server, board, _) = start(Limits::default());
    let addr = server.addr();
    let mut open = connect(&server);
    open.write_all(b"GET / HT").unwrap();
    assert_eq!(ask(&server, "/").0, 200);
    server.shutdown();
    assert_eq!(read_to_close(&mut open), "");
    let again = serve(addr, board).unwrap();
    assert_eq!(again.addr(), addr);
}
