//! What must hold, checked from the logs alone. Shares nothing with the core.

use std::collections::{BTreeMap, BTreeSet};

use firstseen::engine::Repeat;

use super::broker::Broker;
use super::disk::Image;
use super::rng;
use super::source::{Draw, Fate, Record, fingerprint};

/// The checker of one seed.
#[derive(Default)]
pub(crate) struct Ledger {
    checked: usize,
    reported: BTreeSet<i64>,
    pub(crate) reports: u64,
    /// How many records the core found out of order on the output.
    pub(crate) reordered: usize,
    /// Late copies that arrived where nobody was left to notice.
    pub(crate) unwatched: BTreeSet<i64>,
}

/// Whether two records of one key are the same by the rules. `None` where it depends on when they
/// were read.
fn same(draw: &Draw, a: &Record, b: &Record) -> Option<bool> {
    match (a.timestamp, b.timestamp) {
        (Some(x), Some(y)) if a.plain && b.plain => {
            Some(x.abs_diff(y) <= draw.window_ms.unsigned_abs())
        }
        _ => None,
    }
}

impl Ledger {
    pub(crate) fn note(&mut self, repeat: &Repeat) {
        self.reports += 1;
        self.reported.insert(repeat.late.0);
    }

    /// Whether the record was dealt with: forwarded, a duplicate of one that was, or left out.
    fn covered(broker: &Broker, draw: &Draw, index: usize) -> bool {
        let record = &broker.source[index];
        let mut written = broker.output.iter().flatten();
        match record.fate {
            Fate::LeftOut => true,
            _ if broker.dead_letters.contains(&index) => true,
            Fate::Unkeyed => false,
            Fate::Taken if record.key.is_none() => {
                // The same bytes once more are another record: there must be a copy for each.
                let same = |other: &&Record| other.key.is_none() && other.content == record.content;
                let records = broker.source[..=index].iter().filter(same).count();
                // With the state, what lay between the last offset that a report told and the end
                // is lost, too: a copy there can be taken for the replay of its twin.
                let vague = draw.disk_lost > 0 && Self::twin(broker, draw, index);
                let least = if vague { 1 } else { records };
                written.filter(|other| same(&&broker.source[**other])).count() >= least
            }
            _ if record.key.is_none() => false,
            _ => written.any(|other| {
                let other = &broker.source[*other];
                other.key == record.key
                    && (draw.refresh || same(draw, record, other) != Some(false))
            }),
        }
    }

    /// Checks a checkpoint that became durable.
    pub(crate) fn durable(
        &mut self,
        broker: &Broker,
        draw: &Draw,
        image: &Image,
    ) -> Result<(), String> {
        let Some(checkpoint) = &image.checkpoint else { return Ok(()) };
        let below = broker.source.partition_point(|record| record.offset < checkpoint.resume.0);
        for index in self.checked..below {
            if !Self::covered(broker, draw, index) {
                return Err(format!("checkpoint passes source record #{index}, which is nowhere"));
            }
        }
        self.checked = self.checked.max(below);
        let counts = &checkpoint.counts;
        let sum = counts.forwarded
            + counts.suppressed
            + counts.replayed
            + counts.left_out
            + counts.dead_lettered;
        let from = broker.source.partition_point(|record| record.offset < image.counted_from);
        if counts.read != sum || counts.read != (below - from) as u64 {
            return Err(format!("counts do not add up: {counts:?}, {} records", below - from));
        }
        let position = checkpoint.output.map_or(0, |position| rng::index(position.0));
        for (offset, index) in broker.output.iter().enumerate().take(position) {
            let Some(index) = *index else { continue };
            let record = &broker.source[index];
            let below = record.offset < checkpoint.resume.0;
            let known = record.key.is_some_and(|key| image.entries.contains_key(&fingerprint(key)));
            // Copies of a record without a key are not recognised, only counted.
            let nameless =
                record.key.is_none() && (draw.unbounded || Self::twin(broker, draw, index));
            if !(below || known || nameless || Self::forgotten(broker, draw, index)) {
                return Err(format!(
                    "position {position} passes offset {offset}, unknown {record:?}, {checkpoint:?}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that each durable key is on the output.
    pub(crate) fn entries(broker: &Broker, image: &Image) -> Result<(), String> {
        let on_output: BTreeSet<_> = broker
            .output
            .iter()
            .flatten()
            .filter_map(|index| broker.source[*index].key.map(fingerprint))
            .collect();
        let contents: BTreeSet<_> = broker
            .output
            .iter()
            .flatten()
            .map(|index| super::source::content(broker.source[*index].content))
            .collect();
        match image.entries.keys().find(|key| !on_output.contains(key) && !contents.contains(key)) {
            Some(key) => Err(format!("{key:?} is remembered but not on the output")),
            None => Ok(()),
        }
    }

    /// Checks the logs after everything was read.
    pub(crate) fn finish(&self, broker: &Broker, draw: &Draw) -> Result<(), String> {
        for index in 0..broker.source.len() {
            if !Self::covered(broker, draw, index) {
                return Err(format!("lost: source record #{index} {:?}", broker.source[index]));
            }
        }
        self.repeats(broker, draw)?;
        self.order(broker, draw)?;
        let wrong = |index: &&usize| broker.source[**index].fate != Fate::Taken;
        match broker.output.iter().flatten().find(wrong) {
            Some(index) => Err(format!("source record #{index} must not be on the output")),
            None => Ok(()),
        }
    }

    fn repeats(&self, broker: &Broker, draw: &Draw) -> Result<(), String> {
        let mut by_key: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
        for (offset, index) in broker.output.iter().enumerate() {
            let Some(index) = index else { continue };
            let group = broker.source[*index].key.map_or(u64::MAX - *index as u64, u64::from);
            by_key.entry(group).or_default().push((offset, *index));
        }
        for copies in by_key.values() {
            for (nth, (later, b)) in copies.iter().enumerate() {
                for (earlier, a) in &copies[..nth] {
                    if Self::twin(broker, draw, *b) || Self::forgotten(broker, draw, *b) {
                        continue;
                    }
                    let repeated =
                        a == b || same(draw, &broker.source[*a], &broker.source[*b]) == Some(true);
                    if repeated && !self.excused(broker, draw, *earlier, *later) {
                        return Err(format!(
                            "repeated: source #{a} and #{b} at output {earlier} and {later}, reported {:?}, {:?} {:?}",
                            self.reported, broker.source[*a], broker.source[*b]
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies of a key from before anything is remembered are forwarded each, by the rules: with
    /// equal timestamps they cannot be told apart, and a dead instance's is news again.
    fn forgotten(broker: &Broker, draw: &Draw, index: usize) -> bool {
        let record = &broker.source[index];
        let ancient = |record: &Record| record.timestamp.is_some_and(|at| at < 1_000);
        let copies = broker.source.iter().filter(|other| other.key == record.key && ancient(other));
        let told = copies.count() == 1 && !draw.unbounded;
        draw.expire && record.key.is_some() && ancient(record) && !told
    }

    /// Of two records without a key and with the same bytes, which one lies on the output cannot
    /// be told once their order there or their offsets are unknown: better twice than never.
    fn twin(broker: &Broker, draw: &Draw, index: usize) -> bool {
        let record = &broker.source[index];
        let vague = draw.placeless + draw.refuse > 0 || draw.gaps;
        let same = |other: &&Record| other.key.is_none() && other.content == record.content;
        record.key.is_none() && vague && broker.source.iter().filter(same).count() > 1
    }

    fn excused(&self, broker: &Broker, draw: &Draw, earlier: usize, later: usize) -> bool {
        let keyless = broker.output[later].is_some_and(|index| broker.source[index].key.is_none());
        let late = broker.late[earlier] || broker.late[later];
        let known = |offset: usize| {
            let offset = rng::offset(offset);
            self.reported.contains(&offset) || self.unwatched.contains(&offset)
        };
        draw.unbounded
            && late
            && (keyless
                || known(earlier)
                || known(later)
                || self.told_of_another(broker, draw, later))
    }

    /// Where reports carry no offset and several records of a key are on the output by right,
    /// which of its copies is one too many cannot be told: any of them may be the one reported.
    fn told_of_another(&self, broker: &Broker, draw: &Draw, offset: usize) -> bool {
        let key = broker.output[offset].and_then(|index| broker.source[index].key);
        let of_key = |index: &usize| broker.source[*index].key == key;
        let records: BTreeSet<_> = broker.output.iter().flatten().filter(|i| of_key(i)).collect();
        let mut reported = self.reported.iter().map(|offset| broker.output[rng::index(*offset)]);
        draw.placeless > 0
            && key.is_some()
            && records.len() > 1
            && reported.any(|index| index.is_some_and(|index| of_key(&index)))
    }

    fn order(&self, broker: &Broker, draw: &Draw) -> Result<(), String> {
        if draw.unbounded {
            return Ok(());
        }
        let refused: BTreeSet<u32> = broker
            .source
            .iter()
            .filter(|record| {
                matches!(record.fate, Fate::Refused | Fate::RefusedAtOnce) || !record.plain
            })
            .filter_map(|record| record.key)
            .collect();
        let moved =
            |index: &&usize| broker.source[**index].key.is_some_and(|key| refused.contains(&key));
        let written: Vec<usize> = broker
            .output
            .iter()
            .flatten()
            .filter(|index| !moved(index) && !Self::twin(broker, draw, **index))
            .copied()
            .collect();
        // A crash can come between a record and the one that it should have preceded, and a report
        // without an offset does not tell where either lies.
        let watched = draw.crash + draw.leave + draw.placeless == 0;
        match written.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(_) if draw.gaps && (self.reordered > 0 || !watched) => Ok(()),
            None if watched && self.reordered > 0 && written.len() == broker.output.len() => {
                Err(format!("in order, but {} records are told as reordered", self.reordered))
            }
            Some(pair) => Err(format!("reordered: source #{} before #{}", pair[0], pair[1])),
            None => Ok(()),
        }
    }
}
