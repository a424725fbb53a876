//! Asking the process that holds the state, at its status address.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Context, Error};
use crate::words::Code;

/// How long connecting may take; the process is on this machine.
const CONNECT: Duration = Duration::from_secs(3);

/// How long an answer may take; a compaction works for some seconds at a time.
const ANSWER: Duration = Duration::from_secs(60);

/// The longest answer that is taken.
const LONGEST: u64 = 64 << 20;

/// The process that holds the state.
#[derive(Debug)]
pub(super) struct Holder {
    dir: PathBuf,
    pid: Option<u32>,
    address: Option<SocketAddr>,
}

impl Holder {
    /// Takes the holder out of `error`, if that says that there is one; returns the error if not.
    pub(super) fn of(
        context: &Context,
        error: crate::error::Error,
    ) -> Result<Self, crate::error::Error> {
        if error.code() != Code::StateLocked {
            return Err(error);
        }
        let dir = context.config.state.dir.clone();
        // Only a help for whoever reads the error.
        let pid = crate::seen::StateDir::holder(&dir).ok().flatten().flatten();
        Ok(Self { dir, pid, address: context.config.status.listen.map(reachable) })
    }

    /// Asks for `path`.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.exchange("GET", path, None)
    }

    /// Asks for `path` with a body.
    pub(super) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        // Only maps with keys that are no strings fail; there are none.
        let body = serde_json::to_string(body).unwrap_or_default();
        self.exchange("POST", path, Some(&body))
    }

    fn exchange<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Result<T, Error> {
        let Some(address) = self.address else {
            return Err(self.busy("`status.listen` is off"));
        };
        let answer = talk(address, method, path, body)
            .map_err(|error| self.busy(format!("`{address}` does not answer: {error}")))?;
        let (status, body) =
            parse(&answer).ok_or_else(|| self.busy(format!("`{address}` does not speak HTTP")))?;
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        if status != 200 {
            let said = value.get("error").and_then(Value::as_str).unwrap_or("nothing more");
            return Err(self.busy(format!("`{address}` answers {status}: {said}")));
        }
        let pid = value.get("pid").and_then(Value::as_u64);
        if self.pid.is_some_and(|holder| pid != Some(u64::from(holder))) {
            let pid = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            return Err(self.busy(format!("at `{address}` it is {pid} that answers")));
        }
        let strange = |error| self.busy(format!("`{address}` answers strangely: {error}"));
        serde_json::from_value(value).map_err(strange)
    }

    fn busy(&self, why: impl Into<String>) -> Error {
        Error::Busy { dir: self.dir.clone(), holder: self.pid, why: why.into() }
    }
}

/// An address that listens everywhere is reached at this machine's own.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn talk(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&str>,
) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(CONNECT))?;
    let body = body.unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    String::from_utf8(answer).map_err(std::io::Error::other)
}

fn parse(answer: &str) -> Option<(u16, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_listens_everywhere_is_reached_on_this_machine() {
        let cases = [
            ("0.0.0.0:9600", "127.0.0.1:9600"),
            ("[::]:9600", "[::1]:9600"),
            ("10.0.0.7:9600", "10.0.0.7:9600"),
        ];
        for (listen, reached) in cases {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), reached);
        }
    }

    #[test]
    fn an_answer_is_its_status_and_its_body() {
        assert_eq!(parse("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}"), Some((200, "{}")));
        assert_eq!(parse("SSH-2.0\r\n\r\n"), None);
    }
}
