//! A record as the checker sees it: everything a reader could compare.

use crate::words::{RecordOffset, Timestamp};

/// A header: its name and its value, which may be null.
pub type Header = (Vec<u8>, Option<Vec<u8>>);

/// One record, of the source or of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it lies in its partition. Not part of what is compared.
    pub offset: RecordOffset,
    /// The key; null and empty differ.
    pub key: Option<Vec<u8>>,
    /// The value; null and empty differ.
    pub value: Option<Vec<u8>>,
    /// The headers, in order; names may repeat.
    pub headers: Vec<Header>,
    /// The timestamp, where the record has one.
    pub timestamp: Option<Timestamp>,
}

impl Record {
    /// Returns all that is compared, as bytes that differ wherever two records differ: each part
    /// is preceded by its length, or by a mark where it is null.
    pub(super) fn content(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.value.as_ref().map_or(0, Vec::len));
        push(&mut out, self.timestamp.map(|at| at.0.to_be_bytes()).as_ref().map(|b| b.as_slice()));
        push(&mut out, self.key.as_deref());
        push(&mut out, self.value.as_deref());
        for (name, value) in &self.headers {
            push(&mut out, Some(name));
            push(&mut out, value.as_deref());
        }
        out
    }
}

fn push(out: &mut Vec<u8>, part: Option<&[u8]>) {
    match part {
        None => out.push(0),
        Some(bytes) => {
            out.push(1);
            out.extend_from_slice(&bytes.len().to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Record {
        Record {
            offset: RecordOffset(1),
            key: Some(b"ab".to_vec()),
            value: Some(b"c".to_vec()),
            headers: vec![(b"h".to_vec(), None), (b"h".to_vec(), Some(Vec::new()))],
            timestamp: Some(Timestamp(5)),
        }
    }

    #[test]
    fn the_offset_is_not_compared() {
        let moved = Record { offset: RecordOffset(9), ..plain() };
        assert_eq!(plain().content(), moved.content());
    }

    #[test]
    fn any_other_difference_shows() {
        let variants = [
            Record { key: Some(b"a".to_vec()), value: Some(b"bc".to_vec()), ..plain() },
            Record { key: None, ..plain() },
            Record { value: None, ..plain() },
            Record { value: Some(Vec::new()), ..plain() },
            Record { timestamp: None, ..plain() },
            Record { timestamp: Some(Timestamp(6)), ..plain() },
            Record { headers: Vec::new(), ..plain() },
            Record { headers: plain().headers.into_iter().rev().collect(), ..plain() },
            Record { headers: vec![(b"h".to_vec(), None); 2], ..plain() },
        ];
        for variant in variants {
            assert_ne!(plain().content(), variant.content(), "{variant:?}");
        }
    }
}
