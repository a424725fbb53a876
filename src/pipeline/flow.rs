//! The hot path: a record in, a delivery or nothing out; reports in, progress out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::checkpoint::StoreThread;
use crate::config::OnUndeliverable;
use crate::engine::{IN_FLIGHT_MAX_RECORDS, Incoming, Sequence, Verdict};
use crate::kafka::{self, FailureKind, Outcome, Refused, Report, Sink, SourceRecord, Target};
use crate::words::{Aborted, Failure, RecordOffset, Timestamp};

use super::Error;
use super::context::Context;
use super::keys::Kind;
use super::lane::{Lane, Lanes, Phase};
use super::lease::Lease;
use super::taking::Taker;
use super::token::Token;
use super::transact::{Writer, aborted};
use super::watch::Watch;

/// How many reports are taken at a time.
const REPORTS: usize = 10_000;

/// Everything but the source, which lends out the record while it is being handled.
pub(super) struct Flow {
    pub(super) context: Arc<Context>,
    pub(super) sink: Sink,
    pub(super) dead_letter: Option<Target>,
    pub(super) lanes: Lanes,
    pub(super) store: StoreThread,
    pub(super) taker: Taker,
    pub(super) watch: Watch,
    pub(super) lease: Lease,
    /// An uncertain delivery: the producer must be thrown away and everything caught up.
    pub(super) trouble: Option<Error>,
    /// Why a transaction of a lane that was being left is not committed.
    pub(super) left_undone: Option<Error>,
    /// A record had to wait for room, so everything else should be looked at again.
    pub(super) waited: bool,
    reports: Vec<Report>,
}

impl Flow {
    pub(super) fn new(
        context: Arc<Context>,
        sink: Sink,
        dead_letter: Option<Target>,
        lease: Lease,
    ) -> Result<Self, Error> {
        Ok(Self {
            watch: Watch::start(Arc::clone(&context))?,
            context,
            sink,
            dead_letter,
            lanes: Lanes::default(),
            store: StoreThread::start().map_err(Error::Thread)?,
            taker: Taker::new(),
            lease,
            trouble: None,
            left_undone: None,
            waited: false,
            reports: Vec::with_capacity(REPORTS),
        })
    }

    // ---- records -----------------------------------------------------------------------------

    /// Handles one record of the source.
    pub(super) fn record(
        &mut self,
        record: SourceRecord<'_>,
        arrival: Timestamp,
    ) -> Result<(), Error> {
        let Some(lane) = self.lanes.of(record.topic(), record.partition()) else { return Ok(()) };
        if !lane.is_running() {
            return Ok(());
        }
        if let Some(writer) = lane.writer.as_mut().filter(|writer| !writer.is_open()) {
            writer.hold(record.keep(), arrival);
            return Ok(());
        }
        let kind = lane.keys.classify(&record);
        let Some((sequence, dead)) = judge(lane, &record, kind, arrival)? else { return Ok(()) };
        let (slot, life) = (lane.slot, lane.life);
        self.deliver(&record, Token { slot, life, sequence }, dead)
    }

    /// Hands a record to the client; waits while it has no room.
    fn deliver(
        &mut self,
        record: &SourceRecord<'_>,
        token: Token,
        mut dead: bool,
    ) -> Result<(), Error> {
        while self.trouble.is_none() {
            let dead_letter = self.context.config.sink.dead_letter_topic.as_ref();
            let Some(lane) = self.lanes.of_token(token) else { return Ok(()) };
            let (target, partition) = match self.dead_letter.filter(|_| dead) {
                Some(target) => (target, 0),
                None => (lane.route.target, record.partition()),
            };
            let sent = match &mut lane.writer {
                Some(writer) => {
                    if !writer.has_begun() {
                        lane.board.transaction_begun();
                    }
                    writer.send(record, dead, token.pack())
                }
                None => self.sink.send(record, target, partition, token.pack()),
            };
            match sent {
                Ok(()) => {
                    lane.outstanding += 1;
                    lane.sent += 1;
                    return Ok(());
                }
                Err(Refused::Full) => {
                    self.waited = true;
                    if lane.writer.is_none() && !self.lease.holds(Instant::now()) {
                        // It ran out while there was no room: the partition may not be ours now.
                        lane.phase = Phase::Rewinding;
                        return Ok(());
                    }
                    self.serve_reports(Duration::from_millis(5))?;
                }
                Err(Refused::Fatal(error)) => {
                    self.context.board.count_failure(Failure::ProducerFatal);
                    if let Some(writer) = &lane.writer {
                        let why = aborted_by(writer, &error);
                        return self.undo(token.slot, why, error);
                    }
                    self.trouble = Some(error.into());
                }
                Err(Refused::Record(error)) => {
                    self.context.board.count_failure(Failure::DeliveryFinal);
                    if dead || lane.on_undeliverable == OnUndeliverable::Stop {
                        return Err(undeliverable(
                            lane,
                            record.offset(),
                            dead_letter.filter(|_| dead),
                            error,
                        ));
                    }
                    report_dead_letter(lane, record.offset(), &error);
                    if let Some(core) = &mut lane.core {
                        core.divert(token.sequence)?;
                    }
                    dead = true;
                }
            }
            if self.context.control.stopping() && self.trouble.is_none() {
                // Not sent, so not settled: it is read again at the next start.
                let lane = self.lanes.of_token(token);
                let writer = lane.and_then(|lane| lane.writer.as_ref());
                if writer.map_or(&self.sink, |writer| &writer.sink).in_flight() > 0 {
                    continue;
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether the bounds on what is in flight leave room for more records.
    pub(super) fn has_room(&self) -> bool {
        let most = self.context.config.sink.in_flight_max_bytes;
        let mut bytes = 0;
        for lane in self.lanes.iter() {
            let (held, held_bytes) = lane.writer.as_ref().map_or((0, 0), |writer| writer.held());
            let Some(core) = &lane.core else { continue };
            bytes += core.in_flight_bytes() + held_bytes;
            if core.in_flight() + held >= IN_FLIGHT_MAX_RECORDS {
                return false;
            }
        }
        bytes < most
    }

    // ---- reports -----------------------------------------------------------------------------

    /// Takes in delivery reports, waiting up to `wait` for the first.
    pub(super) fn serve_reports(&mut self, wait: Duration) -> Result<(), Error> {
        let mut reports = std::mem::take(&mut self.reports);
        self.take_reports(wait, &mut reports);
        let mut result = Ok(());
        for report in reports.drain(..) {
            // One that fails must not take the others with it: they are waited for.
            let taken = self.report(report);
            result = result.and(taken);
        }
        self.reports = reports;
        result
    }

    /// Takes reports from every producer; waits for those of one only.
    fn take_reports(&mut self, wait: Duration, reports: &mut Vec<Report>) {
        if !self.context.delivery.is_transactional() {
            self.sink.reports(REPORTS, wait, reports);
            return;
        }
        self.sink.reports(REPORTS, Duration::ZERO, reports);
        for writer in self.lanes.iter_mut().filter_map(|lane| lane.writer.as_mut()) {
            writer.sink.reports(REPORTS, Duration::ZERO, reports);
        }
        if wait.is_zero() || !reports.is_empty() {
            return;
        }
        let writers = self.lanes.iter_mut().filter_map(|lane| lane.writer.as_mut());
        let busiest = writers.max_by_key(|writer| writer.sink.in_flight());
        busiest.map_or(&mut self.sink, |writer| &mut writer.sink).reports(REPORTS, wait, reports);
    }

    fn report(&mut self, report: Report) -> Result<(), Error> {
        let token = Token::unpack(report.token);
        // A report for an earlier life says nothing any more: its record was caught up on.
        let Some(lane) = self.lanes.of_token(token) else { return Ok(()) };
        lane.outstanding = lane.outstanding.saturating_sub(1);
        let Some(core) = &mut lane.core else { return Ok(()) };
        match report.outcome {
            Outcome::Confirmed { offset } => {
                let Some(hole) = core.confirm(token.sequence, offset)? else { return Ok(()) };
                match &mut lane.writer {
                    Some(writer) => writer.add_hole(hole),
                    None => self.watch.read_hole(lane, hole)?,
                }
                Ok(())
            }
            Outcome::Failed { kind, error, .. } => {
                if crate::bugs::active("ignore-failed-delivery") {
                    core.confirm(token.sequence, None)?;
                    return Ok(());
                }
                self.failed(token, kind, error)
            }
        }
    }

    fn failed(
        &mut self,
        token: Token,
        kind: FailureKind,
        error: kafka::Error,
    ) -> Result<(), Error> {
        let board = &self.context.board;
        let dead_letter = self.context.config.sink.dead_letter_topic.as_ref();
        let Some(lane) = self.lanes.of_token(token) else { return Ok(()) };
        let Some(core) = &mut lane.core else { return Ok(()) };
        match kind {
            FailureKind::Record => {
                board.count_failure(Failure::DeliveryFinal);
                let offset = core.offset_of(token.sequence)?;
                let dead = core.is_dead_letter(token.sequence)?;
                if dead || lane.on_undeliverable == OnUndeliverable::Stop {
                    return Err(undeliverable(lane, offset, dead_letter.filter(|_| dead), error));
                }
                core.poison(token.sequence)?;
                report_dead_letter(lane, offset, &error);
                if lane.writer.is_some() {
                    return self.undo(token.slot, Aborted::Delivery, error);
                }
                lane.phase = Phase::Rewinding;
            }
            FailureKind::Output => {
                board.count_failure(Failure::DeliveryFinal);
                let offset = core.offset_of(token.sequence)?;
                let dead = core.is_dead_letter(token.sequence)?;
                return Err(undeliverable(lane, offset, dead_letter.filter(|_| dead), error));
            }
            FailureKind::Fatal => {
                board.count_failure(Failure::ProducerFatal);
                if let Some(writer) = &lane.writer {
                    let why = aborted_by(writer, &error);
                    return self.undo(token.slot, why, error);
                }
                self.trouble.get_or_insert(error.into());
            }
            FailureKind::Transient | FailureKind::Purged => {
                board.count_failure(Failure::DeliveryUnknown);
                if lane.writer.is_some() {
                    return self.undo(token.slot, Aborted::Delivery, error);
                }
                if self.trouble.is_none() {
                    let offset = core.offset_of(token.sequence)?;
                    let dead = core.is_dead_letter(token.sequence)?;
                    self.trouble =
                        Some(undeliverable(lane, offset, dead_letter.filter(|_| dead), error));
                }
            }
        }
        Ok(())
    }
}

/// Why a transaction is void whose producer failed for good with `error`.
fn aborted_by(writer: &Writer, error: &kafka::Error) -> Aborted {
    match aborted(writer.sink.undone_by(error)) {
        Aborted::Refused => Aborted::Delivery,
        why => why,
    }
}

/// Asks the core about a record. Returns the delivery to make, and whether to the dead-letter
/// topic, if there is one to make.
fn judge(
    lane: &mut Lane,
    record: &SourceRecord<'_>,
    kind: Kind,
    arrival: Timestamp,
) -> Result<Option<(Sequence, bool)>, Error> {
    let (Some(core), Some(seen)) = (&mut lane.core, &lane.seen) else { return Ok(None) };
    let offset = record.offset();
    let incoming = |identity| Incoming {
        offset,
        identity,
        timestamp: record.timestamp(),
        arrival,
        bytes: u32::try_from(record.size_bytes()).unwrap_or(u32::MAX),
    };
    let identity = match kind {
        Kind::LeaveOut => {
            core.leave_out(offset);
            return Ok(None);
        }
        Kind::Stop(why) => {
            return Err(Error::NoKey { partition: lane.partition.clone(), offset, why });
        }
        Kind::DeadLetter(identity, why) => {
            lane.board.count_missing(why.as_str(), 1);
            return Ok(core.dead_letter(incoming(identity)).map(|sequence| (sequence, true)));
        }
        Kind::Keyless(identity, why) => {
            lane.board.count_missing(why.as_str(), 1);
            identity
        }
        Kind::Judge(identity) => identity,
    };
    match core.record(incoming(identity), &**seen) {
        Ok(Verdict::Deliver(sequence)) => Ok(Some((sequence, false))),
        Ok(Verdict::DeadLetter(sequence)) => Ok(Some((sequence, true))),
        Ok(Verdict::Suppress(_)) => Ok(None),
        // A checkpoint has just failed; its own words come from the store thread.
        Err(crate::seen::Error::Poisoned) if lane.schedule.is_open() => {
            lane.phase = Phase::Rewinding;
            Ok(None)
        }
        Err(source) => Err(Error::PartitionState { partition: lane.partition.clone(), source }),
    }
}

#[cold]
fn undeliverable(
    lane: &Lane,
    offset: RecordOffset,
    dead_letter: Option<&String>,
    source: kafka::Error,
) -> Error {
    let (role, topic) = match dead_letter {
        Some(topic) => ("dead-letter", topic),
        None => ("output", &lane.route.output_topic),
    };
    let (partition, topic, source) = (lane.partition.clone(), topic.clone(), Box::new(source));
    Error::Undeliverable { partition, offset, role, topic, source }
}

#[cold]
fn report_dead_letter(lane: &Lane, offset: RecordOffset, error: &kafka::Error) {
    let partition = &lane.partition;
    let error = crate::error::render(error);
    tracing::warn!(%partition, offset = offset.0, error, "record goes to the dead-letter topic");
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
