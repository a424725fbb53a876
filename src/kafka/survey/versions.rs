//! Which requests a broker takes, out of what the client logs about it.
//!
//! The client asks each broker for this and has no call that hands it on, only lines of its log.
//! Where these should change with the client, nothing is found here: then it is not known.

use std::collections::BTreeMap;

/// The requests every broker takes, by number, each with its lowest and highest version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apis(BTreeMap<i16, (i16, i16)>);

/// The number of a request in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    /// Its number.
    pub key: i16,
    /// Its name in the protocol.
    pub name: &'static str,
}

impl Apis {
    /// What transactional delivery sends.
    pub const TRANSACTIONS: [Api; 5] = [
        Api { key: 22, name: "InitProducerId" },
        Api { key: 24, name: "AddPartitionsToTxn" },
        Api { key: 25, name: "AddOffsetsToTxn" },
        Api { key: 26, name: "EndTxn" },
        Api { key: 28, name: "TxnOffsetCommit" },
    ];

    /// Takes one line of the client's log; keeps what every broker of a cluster can.
    pub(super) fn absorb(&mut self, line: &str) {
        let Some((key, low, high)) = parse(line) else { return };
        let known = self.0.entry(key).or_insert((low, high));
        *known = (known.0.max(low), known.1.min(high));
    }

    /// Returns whether anything is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the highest version of a request; `None` where the broker does not take it.
    pub fn highest(&self, key: i16) -> Option<i16> {
        self.0.get(&key).map(|(_, high)| *high)
    }

    /// Takes these requests with their highest version.
    #[cfg(test)]
    pub(crate) fn of(highest: &[(i16, i16)]) -> Self {
        Self(highest.iter().map(|(key, high)| (*key, (0, *high))).collect())
    }
}

/// Reads `... ApiKey NAME (22) Versions 0..5`.
fn parse(line: &str) -> Option<(i16, i16, i16)> {
    let (_, rest) = line.split_once("ApiKey ")?;
    let (_, rest) = rest.split_once('(')?;
    let (key, rest) = rest.split_once(") Versions ")?;
    let (low, high) = rest.trim_end().split_once("..")?;
    Some((key.parse().ok()?, low.parse().ok()?, high.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_versions_that_all_brokers_share() {
        let mut apis = Apis::default();
        assert!(apis.is_empty());
        apis.absorb("[thrd:b:1]: b:1/1:   ApiKey InitProducerId (22) Versions 0..5");
        apis.absorb("[thrd:b:2]: b:2/2:   ApiKey InitProducerId (22) Versions 0..3");
        apis.absorb("[thrd:b:2]: b:2/2: Enabling feature Idempotence");
        assert_eq!(apis.highest(22), Some(3));
        assert_eq!(apis.highest(24), None);
    }
}
