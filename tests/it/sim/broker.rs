//! The broker and the client's queues: batches in order, and every way a report can go wrong.

use std::collections::VecDeque;

use firstseen::engine::Sequence;
use firstseen::words::{OutputPosition, RecordOffset, ResumeOffset};

use super::cover::{Coverage, Kind};
use super::rng::{self, Rng};
use super::source::{Draw, Fate, Record};

/// What the client says about one record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Placed(Option<RecordOffset>),
    Refused,
    Failed,
}

type Batch = Vec<(Sequence, usize)>;

/// One producer: thrown away as a whole after an unknown outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producer {
    pub(crate) buffer: VecDeque<(Sequence, usize)>,
    wire: VecDeque<Batch>,
    dead_wire: VecDeque<(Sequence, usize)>,
    reports: VecDeque<(Sequence, Outcome)>,
    dead_reports: VecDeque<Sequence>,
    broken: bool,
}

impl Producer {
    pub(crate) fn send_dead(&mut self, sequence: Sequence, record: usize) {
        self.dead_wire.push_back((sequence, record));
    }

    pub(crate) fn idle(&self) -> bool {
        self.buffer.is_empty()
            && self.wire.is_empty()
            && self.dead_wire.is_empty()
            && self.reports.is_empty()
            && self.dead_reports.is_empty()
    }

    /// Puts what waits into a batch. At most five are on the way.
    pub(crate) fn flush(&mut self, rng: &mut Rng) {
        if self.wire.len() < 5 && !self.buffer.is_empty() && !self.broken {
            let most = 1 + rng.below(8);
            let batch = self.buffer.drain(..most.min(self.buffer.len())).collect();
            self.wire.push_back(batch);
        }
    }

    /// Takes the next report, of either topic: their order is not related.
    pub(crate) fn report(&mut self, rng: &mut Rng) -> Option<(Sequence, Outcome)> {
        if !self.dead_reports.is_empty() && (self.reports.is_empty() || rng.chance(300)) {
            return self.dead_reports.pop_front().map(|sequence| (sequence, Outcome::Placed(None)));
        }
        self.reports.pop_front()
    }
}

/// What the group's commit holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    pub(crate) resume: ResumeOffset,
    pub(crate) output: Option<OutputPosition>,
    pub(crate) accounted: Option<OutputPosition>,
}

/// The broker of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Broker {
    pub(crate) source: Vec<Record>,
    /// Which source record lies at each output offset; `None` is a control record.
    pub(crate) output: Vec<Option<usize>>,
    /// Whether that record was written by a producer that was dead already.
    pub(crate) late: Vec<bool>,
    pub(crate) dead_letters: Vec<usize>,
    pub(crate) group: Option<Committed>,
    pub(crate) producer: Producer,
    ghosts: Vec<VecDeque<Batch>>,
}

impl Broker {
    pub(crate) fn new(source: Vec<Record>) -> Self {
        Self {
            source,
            output: Vec::new(),
            late: Vec::new(),
            dead_letters: Vec::new(),
            group: None,
            producer: Producer::default(),
            ghosts: Vec::new(),
        }
    }

    fn append(&mut self, record: Option<usize>, late: bool) -> RecordOffset {
        tell!("append {} = {record:?}{}", self.output.len(), if late { ", late" } else { "" });
        self.output.push(record);
        self.late.push(late);
        RecordOffset(rng::offset(self.output.len()) - 1)
    }

    pub(crate) fn append_control(&mut self) {
        self.append(None, false);
    }

    pub(crate) fn end(&self) -> OutputPosition {
        OutputPosition(rng::offset(self.output.len()))
    }

    /// Moves what is on the wire by one batch.
    pub(crate) fn advance(&mut self, rng: &mut Rng, draw: &Draw, calm: bool, cover: &mut Coverage) {
        if let Some((sequence, record)) = self.producer.dead_wire.pop_front() {
            self.dead_letters.push(record);
            self.producer.dead_reports.push_back(sequence);
        }
        if self.producer.broken {
            return;
        }
        let Some(batch) = self.producer.wire.pop_front() else { return };
        if !calm && rng.chance(draw.lose) {
            cover.hit(Kind::Lost);
            self.fail(&batch);
            if draw.gaps && rng.chance(500) {
                // The client goes on with the next batch before anybody could stop it.
                cover.hit(Kind::Gap);
            } else {
                // The broker refuses what follows a missing batch.
                self.producer.wire.clear();
                self.producer.broken = true;
            }
        } else if !calm && rng.chance(draw.ambiguous) {
            if rng.chance(500) {
                cover.hit(Kind::AckLost);
                self.write(&batch, false);
            } else {
                cover.hit(Kind::TimedOut);
                self.producer.wire.push_front(batch.clone());
            }
            self.fail(&batch);
            self.give_up();
        } else {
            let placeless = !calm && rng.chance(draw.placeless);
            for (sequence, record) in batch {
                let outcome = if self.source[record].fate == Fate::Refused {
                    cover.hit(Kind::Refused);
                    Outcome::Refused
                } else {
                    let offset = self.append(Some(record), false);
                    if placeless {
                        cover.hit(Kind::Placeless);
                    }
                    Outcome::Placed((!placeless).then_some(offset))
                };
                self.producer.reports.push_back((sequence, outcome));
            }
        }
    }

    fn fail(&mut self, batch: &Batch) {
        let failed = batch.iter().map(|(sequence, _)| (*sequence, Outcome::Failed));
        self.producer.reports.extend(failed);
    }

    /// The producer takes no more; what is on the wire may arrive all the same.
    fn give_up(&mut self) {
        self.producer.broken = true;
        let wire = std::mem::take(&mut self.producer.wire);
        if !wire.is_empty() {
            self.ghosts.push(wire);
        }
    }

    /// Throws the producer away. What it had on the wire may still arrive.
    pub(crate) fn replace_producer(&mut self) {
        let old = std::mem::take(&mut self.producer);
        if !old.wire.is_empty() {
            self.ghosts.push(old.wire);
        }
    }

    fn write(&mut self, batch: &Batch, late: bool) {
        for (_, record) in batch {
            if self.source[*record].fate != Fate::Refused {
                self.append(Some(*record), late);
            }
        }
    }

    pub(crate) fn has_ghosts(&self) -> bool {
        !self.ghosts.is_empty()
    }

    /// One batch of a dead producer arrives, or never will.
    pub(crate) fn land_one(&mut self, rng: &mut Rng) -> bool {
        if self.ghosts.is_empty() {
            return false;
        }
        let which = rng.below(self.ghosts.len());
        if rng.chance(350) {
            self.ghosts.remove(which);
            return false;
        }
        let batch = self.ghosts[which].pop_front();
        if self.ghosts[which].is_empty() {
            self.ghosts.remove(which);
        }
        batch.is_some_and(|batch| {
            self.write(&batch, true);
            true
        })
    }
}
