//! Frames of the Kafka protocol: a length, and for requests a header that says what they are.

use std::io::{self, ErrorKind, Read};

/// The longest frame taken for one; anything else is not Kafka.
const LONGEST: usize = 256 << 20;

/// The host that test brokers tell their clients; only the port behind it is rewritten.
const HOST: &[u8] = b"127.0.0.1";

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Api(pub(crate) i16);

#[expect(dead_code, reason = "the requests that tests meddle with, named in one place")]
impl Api {
    pub(crate) const PRODUCE: Self = Self(0);
    pub(crate) const FETCH: Self = Self(1);
    pub(crate) const METADATA: Self = Self(3);
    pub(crate) const OFFSET_COMMIT: Self = Self(8);
    pub(crate) const FIND_COORDINATOR: Self = Self(10);
    pub(crate) const HEARTBEAT: Self = Self(12);
    pub(crate) const INIT_PRODUCER_ID: Self = Self(22);
    pub(crate) const ADD_PARTITIONS_TO_TXN: Self = Self(24);
    pub(crate) const ADD_OFFSETS_TO_TXN: Self = Self(25);
    pub(crate) const END_TXN: Self = Self(26);
    pub(crate) const TXN_OFFSET_COMMIT: Self = Self(28);
    pub(crate) const DESCRIBE_CLUSTER: Self = Self(60);

    /// Whether answers to it say where brokers are.
    pub(super) fn tells_addresses(self) -> bool {
        [Self::METADATA, Self::FIND_COORDINATOR, Self::DESCRIBE_CLUSTER].contains(&self)
    }
}

/// The header of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) api: Api,
    pub(super) correlation: i32,
    /// What the client calls itself; empty where it does not.
    pub(super) client: String,
}

/// Reads a frame with its length in front; `None` where the stream ends before one.
pub(super) fn read(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let body = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if body > LONGEST {
        return Err(io::Error::other(format!("a frame of {length:?} bytes is not Kafka's")));
    }
    let mut frame = vec![0; body + length.len()];
    frame[..4].copy_from_slice(&length);
    stream.read_exact(&mut frame[4..])?;
    Ok(Some(frame))
}

/// Returns the header of a request's frame.
pub(super) fn header(frame: &[u8]) -> Option<Header> {
    let api = i16::from_be_bytes(frame.get(4..6)?.try_into().ok()?);
    let correlation = i32::from_be_bytes(frame.get(8..12)?.try_into().ok()?);
    let length = i16::from_be_bytes(frame.get(12..14)?.try_into().ok()?);
    // A client without a name has the length -1.
    let length = usize::try_from(length).unwrap_or(0);
    let client = String::from_utf8_lossy(frame.get(14..14 + length)?).into_owned();
    Some(Header { api: Api(api), correlation, client })
}

/// Returns the correlation id of an answer's frame.
pub(super) fn correlation(frame: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(frame.get(4..8)?.try_into().ok()?))
}

/// Puts another port behind each address of the broker. In every answer that tells addresses, in
/// every version of it, the port's four bytes follow the host, so nothing else moves.
pub(super) fn redirect(frame: &mut [u8], from: u16, to: u16) {
    let address = [HOST, &i32::from(from).to_be_bytes()[..]].concat();
    let mut at = 0;
    while let Some(found) = frame.get(at..).and_then(|rest| find(rest, &address)) {
        let port = at + found + HOST.len();
        frame[port..port + 4].copy_from_slice(&i32::from(to).to_be_bytes());
        at = port + 4;
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[test]
fn a_request_is_told_by_its_header() {
    let mut frame = vec![0, 0, 0, 20, 0, 26, 0, 3, 0, 0, 1, 2, 0, 5];
    frame.extend_from_slice(b"first and more");
    let read = read(&mut &frame[..]).unwrap().unwrap();
    let client = "first".to_owned();
    assert_eq!(header(&read), Some(Header { api: Api::END_TXN, correlation: 258, client }));
}

#[test]
fn a_stream_that_ends_is_no_frame_and_one_cut_short_is_an_error() {
    assert!(read(&mut &b""[..]).unwrap().is_none());
    assert!(read(&mut &b"\0\0\0\x09abc"[..]).is_err());
    assert!(read(&mut &b"GET / HTTP/1.1"[..]).is_err());
}

#[test]
fn only_the_ports_behind_the_brokers_addresses_change() {
    let port = |port: i32| port.to_be_bytes().to_vec();
    let plain = |p| [b"x127.0.0.1".to_vec(), port(p), b"127.0.0.1".to_vec(), port(9), port(p)];
    let mut frame = plain(4_000).concat();
    redirect(&mut frame, 4_000, 5_000);
    let mut expected = plain(4_000);
    expected[1] = port(5_000);
    assert_eq!(frame, expected.concat());
}
