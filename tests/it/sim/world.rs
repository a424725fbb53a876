//! One seed from its first record to its verdict.

use super::broker::Broker;
use super::cover::{Coverage, Kind};
use super::disk::Disk;
use super::ledger::Ledger;
use super::rng::{self, Rng};
use super::sink::{Around, Phase, Sink};
use super::source::{self, BEGIN, Draw};

/// How many steps the healed world gets.
const PATIENCE: u64 = 40_000;

pub(crate) struct World {
    rng: Rng,
    draw: Draw,
    broker: Broker,
    disk: Disk,
    sink: Option<Sink>,
    cover: Coverage,
    ledger: Ledger,
    now: i64,
    skew: i64,
    starts: u128,
    trace: u64,
    steps: u64,
}

/// What a seed that went well leaves.
pub(crate) struct Ran {
    pub(crate) trace: u64,
    pub(crate) steps: u64,
    pub(crate) cover: Coverage,
}

impl World {
    pub(crate) fn run(seed: u64) -> Result<Ran, String> {
        let mut world = Self::new(seed);
        world.live().map_err(|why| format!("{why}\n    {:?}", world.draw))
    }

    fn live(&mut self) -> Result<Ran, String> {
        let world = self;
        let chaos = world.rng.between(200, 2_500);
        for _ in 0..chaos {
            world.step(false)?;
        }
        for _ in 0..PATIENCE {
            if world.finished() {
                world.check_end()?;
                return Ok(Ran {
                    trace: world.trace,
                    steps: world.steps,
                    cover: world.cover.clone(),
                });
            }
            world.step(true)?;
        }
        let phase = world.sink.as_ref().map(|sink| (sink.phase, sink.core.in_flight()));
        Err(format!("stuck: the healed world did not finish: {phase:?}"))
    }

    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let draw = Draw::new(&mut rng);
        let mut cover = Coverage::default();
        let source = source::plan(&mut rng, &draw, &mut cover);
        let last = source.last().map_or(BEGIN, |record| record.made);
        let now = if rng.chance(300) { last } else { BEGIN };
        Self {
            rng,
            draw,
            broker: Broker::new(source),
            disk: Disk::default(),
            sink: None,
            cover,
            ledger: Ledger::default(),
            now,
            skew: 0,
            starts: 0,
            trace: 0,
            steps: 0,
        }
    }

    fn around(&mut self, calm: bool) -> (Around<'_>, &mut Option<Sink>) {
        let around = Around {
            broker: &mut self.broker,
            disk: &mut self.disk,
            rng: &mut self.rng,
            draw: &self.draw,
            cover: &mut self.cover,
            wall: self.now + self.skew,
            now: self.now,
            calm,
        };
        (around, &mut self.sink)
    }

    fn step(&mut self, calm: bool) -> Result<(), String> {
        self.steps += 1;
        self.now += self.rng.between(0, 12);
        self.outside(calm);
        if self.sink.is_none() {
            self.start(calm);
        }
        let writes = self.disk.writes();
        let (mut around, sink) = self.around(calm);
        let (mut repeats, mut taking, mut reordered) = (Vec::new(), false, 0);
        if let Some(sink) = sink {
            taking = sink.taking();
            sink.step(&mut around);
            repeats = std::mem::take(&mut sink.repeats);
            reordered = std::mem::take(&mut sink.reordered);
        }
        repeats.iter().for_each(|repeat| self.ledger.note(repeat));
        self.ledger.reordered += reordered;
        if taking {
            self.watch_ends();
        }
        if self.disk.writes() != writes {
            self.ledger.durable(&self.broker, &self.draw, &self.disk.live)?;
            Ledger::entries(&self.broker, &self.disk.live)?;
        }
        if self.sink.as_ref().is_some_and(|sink| sink.phase == Phase::Gone) {
            self.cover.hit(Kind::Leave);
            self.watch_ends();
            self.sink = None;
        }
        self.hash();
        Ok(())
    }

    /// What happens whatever the instance does.
    fn outside(&mut self, calm: bool) {
        for _ in 0..=self.rng.below(2) {
            self.broker.advance(&mut self.rng, &self.draw, calm, &mut self.cover);
        }
        let down = self.sink.is_none();
        if (down || self.draw.unbounded)
            && self.rng.chance(60)
            && self.broker.land_one(&mut self.rng)
        {
            let caught_up = self
                .sink
                .as_ref()
                .is_some_and(|sink| !matches!(sink.phase, Phase::Load { .. } | Phase::Wait));
            self.cover.hit(if caught_up { Kind::LateAfter } else { Kind::LateInside });
        }
        if calm {
            return;
        }
        if self.rng.chance(self.draw.control) {
            self.cover.hit(Kind::ControlRecord);
            self.broker.append_control();
        }
        if self.rng.chance(self.draw.clock_back) {
            self.move_clock();
        }
        if self.rng.chance(self.draw.leave) {
            let patience = self.rng.below(60);
            if let Some(sink) = &mut self.sink {
                sink.ask_to_leave(patience);
            }
        }
        if self.rng.chance(self.draw.crash) {
            self.crash();
        }
    }

    fn move_clock(&mut self) {
        if self.skew >= 0 {
            self.cover.hit(Kind::ClockBack);
            self.skew = -self.rng.between(0, self.draw.max_future_ms / 2);
        } else if self.draw.expire || self.broker.source.iter().any(|record| !record.plain) {
            // A leap ahead is a leap for what has no time of its own, and for what expires.
            self.skew = 0;
        } else {
            self.cover.hit(Kind::ClockAhead);
            self.skew = self.rng.between(0, self.draw.window_ms * 20);
        }
    }

    fn crash(&mut self) {
        let Some(sink) = self.sink.take() else { return };
        self.cover.hit(Kind::Crash);
        tell!("{}: crash", self.now);
        match sink.phase {
            Phase::Load { .. } => self.cover.hit(Kind::CrashInRebuild),
            Phase::CatchUp { .. } => self.cover.hit(Kind::CrashInCatchUp),
            _ => {}
        }
        if sink.core.in_flight() > 0 {
            self.cover.hit(Kind::CrashInFlight);
        }
        if sink.to_commit.is_some() {
            self.cover.hit(Kind::CrashBeforeCommit);
        }
        if let Some(draft) = sink.open {
            self.cover.hit(Kind::CrashInCheckpoint);
            if self.rng.chance(500) {
                self.disk.persist(&draft, None);
            }
        }
        self.broker.replace_producer();
        self.disk.crash();
        self.watch_ends();
        if self.rng.chance(self.draw.disk_lost) {
            self.cover.hit(Kind::DiskLost);
            tell!("{}: the disk is lost", self.now);
            self.disk.lose();
        } else if self.rng.chance(self.draw.disk_stale) && self.disk.backups() > 0 {
            self.cover.hit(Kind::DiskStale);
            let backup = self.rng.below(self.disk.backups());
            tell!("{}: an older disk", self.now);
            self.disk.restore(backup);
        }
    }

    /// From here on nobody is there to notice what arrives. The successor tells it, unless reports
    /// without offsets leave open up to where the output was accounted for.
    fn watch_ends(&mut self) {
        if self.draw.placeless == 0 {
            return;
        }
        let position = self.disk.live.checkpoint.as_ref().and_then(|checkpoint| checkpoint.output);
        let from = position.map_or(0, |position| rng::index(position.0));
        for offset in from..self.broker.output.len() {
            if self.broker.late[offset] {
                self.ledger.unwatched.insert(rng::offset(offset));
            }
        }
    }

    fn start(&mut self, calm: bool) {
        if !self.rng.chance(200) {
            return;
        }
        self.starts += 1;
        let starts = self.starts;
        let (mut around, sink) = self.around(calm);
        *sink = Some(Sink::start(&mut around, starts));
    }

    fn finished(&mut self) -> bool {
        let (around, sink) = self.around(true);
        sink.as_ref().is_some_and(|sink| sink.finished(&around)) && !around.broker.has_ghosts()
    }

    fn check_end(&mut self) -> Result<(), String> {
        self.ledger.finish(&self.broker, &self.draw)?;
        let Some(sink) = &self.sink else { return Ok(()) };
        let counts = sink.core.live();
        let plain = self.broker.source.iter().all(|record| record.plain);
        if self.draw.unbounded || !plain {
            return Ok(());
        }
        if counts.repeated > 0 || counts.late_writes > 0 {
            return Err(format!("nobody else wrote, but it counts {counts:?}"));
        }
        let from = self.disk.live.counted_from;
        let own = |index: &&usize| self.broker.source[**index].offset >= from;
        let written = self.broker.output.iter().flatten().filter(own).count() as u64;
        // After a rebuild from a position that lags, a duplicate can meet the copy it repeats.
        let twins = |record: &source::Record| record.key.is_none() && !self.draw.expire;
        let blurred = (self.draw.placeless + self.draw.refuse > 0 || self.draw.gaps)
            && (self.draw.disk_lost > 0 || self.broker.source.iter().any(twins));
        if counts.forwarded + counts.replayed != written && !blurred {
            return Err(format!("{written} records on the output, but it counts {counts:?}"));
        }
        Ok(())
    }

    fn hash(&mut self) {
        let sink = self.sink.as_ref().map_or(0, |sink| sink.core.next_read().0.unsigned_abs() + 1);
        for part in [
            self.broker.output.len() as u64,
            sink,
            self.now.unsigned_abs(),
            self.rng.clone().next(),
        ] {
            self.trace = (self.trace ^ part).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
