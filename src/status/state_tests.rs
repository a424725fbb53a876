//! Over a real socket: who may ask about the state, and how.

use std::io::{Read, Write};
use std::time::Duration;

use super::*;
use crate::status::{Limits, serve_all};
use crate::words::{Board, Timestamp};

/// Answers with what it was asked.
#[derive(Debug)]
struct Echo;

impl StateDesk for Echo {
    fn answer(&self, question: StateQuestion) -> StateAnswer {
        let json = match question {
            StateQuestion::Stats => "stats".to_owned(),
            StateQuestion::Explain(body) => format!("explain {}", body.len()),
            StateQuestion::Compact(body) => format!("compact {}", body.len()),
        };
        StateAnswer { status: 200, json }
    }
}

fn ask(head: &str, body: &str) -> (u16, String) {
    let board = Arc::new(Board::new(Timestamp(0)));
    let routes = StateRoutes { desk: Arc::new(Echo), anywhere: false };
    let addr = "127.0.0.1:0".parse().unwrap();
    let server = serve_all(addr, board, Limits::default(), Some(routes)).unwrap();
    let mut stream = std::net::TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    write!(stream, "{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

const HOST: &str = "Host: 127.0.0.1:9600\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn this_machine_may_ask_in_the_body_of_a_post() {
    let (status, body) = ask(&format!("GET /state/stats HTTP/1.1\r\n{HOST}"), "");
    assert_eq!((status, body.as_str()), (200, "stats"));
    let (status, body) = ask(&format!("POST /state/explain HTTP/1.1\r\n{HOST}{JSON}"), "{}");
    assert_eq!((status, body.as_str()), (200, "explain 2"));
    let (status, body) = ask(&format!("POST /state/compact HTTP/1.1\r\n{HOST}{JSON}"), "{}");
    assert_eq!((status, body.as_str()), (200, "compact 2"));
    assert_eq!(ask(&format!("GET /state/explain HTTP/1.1\r\n{HOST}"), "").0, 405);
}

#[test]
fn no_web_page_may_ask() {
    let stats = |more: &str| ask(&format!("GET /state/stats HTTP/1.1\r\n{more}"), "").0;
    assert_eq!(stats(&format!("{HOST}Origin: http://127.0.0.1:8080\r\n")), 403);
    assert_eq!(stats("Host: evil.example:9600\r\n"), 403);
    assert_eq!(stats("Host: localhost:9600\r\n"), 200);
    assert_eq!(stats("Host: [::1]:9600\r\n"), 200);
    let post =
        ask(&format!("POST /state/compact HTTP/1.1\r\n{HOST}Content-Type: text/plain\r\n"), "{}");
    assert_eq!(post.0, 415);
}

#[test]
fn other_machines_may_not_ask_unless_the_config_lets_them() {
    let far: SocketAddr = "192.0.2.7:40000".parse().unwrap();
    let near: SocketAddr = "[::ffff:127.0.0.1]:40000".parse().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, "10.0.0.1:9600".parse().unwrap());
    assert!(why_not(false, Peer(far), &headers).is_some());
    assert_eq!(why_not(true, Peer(far), &headers), None);
    assert_eq!(why_not(false, Peer(near), &headers), None);
}
