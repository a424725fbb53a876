//! The loop of the polling thread, turn by turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{Config, Membership};
use crate::kafka::{self, Closed, Polled, Sink, Source};
use crate::seen::StateDir;
use crate::window::Window;
use crate::words::{Board, Failure, SourcePartition, Span, Timestamp, WallClock};

use super::Error;
use super::context::{Context, Control};
use super::flow::Flow;
use super::gate::Gate;
use super::keys::Keys;
use super::lane::{Lane, Phase, Route};
use super::lease::Lease;
use super::mode::{self, Delivery};
use super::plan::Committed;
use super::progress::Commits;
use super::topics::Topics;
use super::watch::{QUIET_EVERY, TOPICS_EVERY};
use crate::checkpoint::Schedule;

/// How many records are taken between two looks at everything else.
const RECORDS_PER_TURN: usize = 512;

/// How long a turn waits for a record where there is none: bounds how late a report is seen.
const IDLE_WAIT: Duration = Duration::from_millis(2);

/// How often things are looked at that need not be looked at each turn.
const HOUSEKEEPING_EVERY: Duration = Duration::from_millis(20);

/// How often lag and the like are published.
const BOARD_EVERY: Duration = Duration::from_millis(250);

/// Steps of the wall clock up to this long are waited out.
const CLOCK_HOLD: Span = Span::from_ms(60_000);

/// How long the group may take to tell committed offsets.
const COMMITTED_TIMEOUT: Duration = Duration::from_secs(15);

/// How long leaving the group may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Runs until told to stop, or until something cannot be got over.
///
/// Returns `Ok` after a stop that was asked for: drained, checkpointed, committed.
///
/// # Errors
/// [`Error`], whose code and fix are for the operator. Whatever was settled before it is durable.
pub fn run(config: Config, board: Arc<Board>, control: Control) -> Result<(), Error> {
    let mut pipeline = Pipeline::start(config, board, control)?;
    let worked = pipeline.work();
    pipeline.flow.context.board.set_stopping();
    let left = pipeline.stop();
    worked.and(left)
}

struct Pipeline {
    source: Source,
    flow: Flow,
    topics: Topics,
    gate: Gate,
    commits: Commits,
    housekept_at: Instant,
    board_at: Instant,
    quiet_at: Instant,
    arrival: Timestamp,
    topics_at: Instant,
}

impl Pipeline {
    fn start(config: Config, board: Arc<Board>, control: Control) -> Result<Self, Error> {
        let now = Instant::now();
        let state = StateDir::open(&config.state.dir)?;
        let mut topics = Topics::connect(&config)?;
        let sources = topics.sources(&config)?;
        let partitions = topics.partitions(&sources)?;
        let limits = topics.record_limits(&config, &sources)?;
        let decision = mode::decide(&config, &state, partitions.first(), &board, &control)?;
        let delivery = Delivery::new(decision, &config, limits);
        let mut sink = Sink::connect_as(&config, limits, &delivery.shared())?;
        let dead_letter = &config.sink.dead_letter_topic;
        let dead_letter = dead_letter.as_ref().map(|topic| sink.target(topic)).transpose()?;
        for topic in &sources {
            topics.route(&config, &mut sink, topic)?;
            topics.warn_of_short_memory(&config, topic)?;
        }
        let mut source = Source::connect(&config)?;
        let lease = match config.source.membership {
            Membership::Group => {
                Lease::of_group(config.source.session_timeout, config.sink.delivery_timeout, now)
            }
            Membership::Alone => Lease::endless(now),
        };
        match config.source.membership {
            Membership::Group => source.subscribe()?,
            Membership::Alone => source.assign_alone(partitions),
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(Error::Random)?;
        let incarnation = u128::from_le_bytes(random);
        let clock = WallClock::system();
        let context = Context { config, state, clock, incarnation, board, control, delivery };
        let flow = Flow::new(Arc::new(context), sink, dead_letter, lease)?;
        Ok(Self {
            source,
            flow,
            topics,
            gate: Gate::new(),
            commits: Commits::new(now),
            housekept_at: now,
            board_at: now,
            quiet_at: now,
            arrival: Timestamp(0),
            topics_at: now,
        })
    }

    fn work(&mut self) -> Result<(), Error> {
        let mut idle = false;
        while !self.flow.context.control.stopping() {
            let now = Instant::now();
            self.flow.context.board.beat();
            self.flow.serve_reports(Duration::ZERO)?;
            self.flow.serve_transactions(&self.source, self.commits.is_open(now))?;
            if now.duration_since(self.housekept_at) >= HOUSEKEEPING_EVERY {
                self.housekeep(now)?;
            }
            let open = self.gate.look(&mut self.flow, &mut self.source, now)?;
            idle = self.read(open, idle)?;
        }
        Ok(())
    }

    /// Everything that is not a record or a report.
    fn housekeep(&mut self, now: Instant) -> Result<(), Error> {
        self.housekept_at = now;
        self.flow.serve_store()?;
        self.flow.serve_trouble(&mut self.source)?;
        self.flow.serve_rewinds(&mut self.source)?;
        self.flow.serve_takes(&mut self.source, self.gate.is_open())?;
        self.flow.serve_watch()?;
        self.flow.begin_checkpoints(now)?;
        self.flow.commit(&mut self.source, &mut self.commits, now);
        if now.duration_since(self.board_at) >= BOARD_EVERY {
            self.board_at = now;
            self.publish(now);
        }
        if now.duration_since(self.quiet_at) >= QUIET_EVERY {
            self.quiet_at = now;
            for lane in self.flow.lanes.iter().filter(|lane| lane.is_running()) {
                self.flow.watch.ask_end(lane);
            }
        }
        if now.duration_since(self.topics_at) >= TOPICS_EVERY {
            self.topics_at = now;
            self.ask_topics();
        }
        Ok(())
    }

    /// Asks once for each topic: one lane of it is enough.
    fn ask_topics(&self) {
        let running: Vec<_> = self.flow.lanes.iter().filter(|lane| lane.is_running()).collect();
        for (at, lane) in running.iter().enumerate() {
            let topic = &lane.partition.topic;
            if !running.iter().take(at).any(|earlier| earlier.partition.topic == *topic) {
                self.flow.watch.ask_topics(lane);
            }
        }
    }

    /// Takes records and events of the source. Returns whether there was nothing.
    fn read(&mut self, open: bool, idle: bool) -> Result<bool, Error> {
        let arrival = self.arrive();
        let most = if open { RECORDS_PER_TURN } else { 1 };
        if !open {
            // The source is polled for events; a record that comes along must not come at once.
            self.flow.serve_reports(IDLE_WAIT)?;
        }
        let mut wait = if idle && open { IDLE_WAIT } else { Duration::ZERO };
        for taken in 0..most {
            let event = match self.source.poll(std::mem::take(&mut wait)) {
                Polled::Record(record) => {
                    self.flow.record(record, arrival)?;
                    let waited = std::mem::take(&mut self.flow.waited);
                    if waited || self.flow.trouble.is_some() {
                        break;
                    }
                    continue;
                }
                Polled::Nothing => return Ok(taken == 0),
                Polled::Assigned(partitions) => Event::Assigned(partitions),
                Polled::Revoked { partitions, lost } => Event::Revoked(partitions, lost),
                Polled::Committed { result, sent_at } => Event::Committed(result, sent_at),
                Polled::Failed(error) => Event::Failed(error),
            };
            self.event(event)?;
            return Ok(false);
        }
        Ok(false)
    }

    /// Returns the wall clock, which small steps back do not turn back: arrivals stay in order.
    ///
    /// A large step is taken, so that a clock that was wrong once does not stand still.
    fn arrive(&mut self) -> Timestamp {
        let now = self.flow.context.clock.now();
        let back = self.arrival.distance(now);
        if now < self.arrival && back > CLOCK_HOLD {
            tracing::warn!(%back, "the wall clock stepped back");
            self.arrival = now;
        }
        self.arrival = self.arrival.max(now);
        self.arrival
    }

    fn event(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Assigned(partitions) => self.assigned(&partitions),
            Event::Revoked(partitions, lost) => self.revoked(&partitions, lost),
            Event::Committed(result, sent_at) => {
                self.flow.committed(&mut self.commits, result, sent_at);
                Ok(())
            }
            Event::Failed(error) => {
                self.flow.context.board.count_failure(Failure::Consume);
                Err(error.into())
            }
        }
    }

    // ---- assignments ---------------------------------------------------------------------------

    fn assigned(&mut self, partitions: &[SourcePartition]) -> Result<(), Error> {
        let now = Instant::now();
        self.flow.lease.renew(now);
        let (committed, known) = self.committed(partitions)?;
        let boards = self.flow.context.board.assign(partitions);
        // Mostly right, and always nearer than nothing: it spares a move.
        let likely = committed.iter().map(|c| c.as_ref().map(|c| c.offset));
        let accepted: Vec<_> = partitions.iter().cloned().zip(likely).collect();
        self.source.accept(&accepted)?;
        // The brokers are asked once for each topic: this thread must come back to polling.
        let mut routes: BTreeMap<Arc<str>, Route> = BTreeMap::new();
        for ((partition, committed), board) in partitions.iter().zip(committed).zip(boards) {
            tracing::info!(%partition, "assigned");
            let config = &self.flow.context.config;
            let topic = &partition.topic;
            let route = match routes.get(topic) {
                Some(route) => route.clone(),
                None => self.topics.route(config, &mut self.flow.sink, topic)?,
            };
            routes.insert(Arc::clone(topic), route.clone());
            let rule = config.rule(&partition.topic);
            let keys = Keys::new(rule, self.flow.context.state.secret());
            let window = Window::new(rule);
            let on_undeliverable = config.sink.on_undeliverable.clone();
            let schedule = Schedule::new(&config.checkpoint, now);
            let added = self.flow.lanes.add(|slot, life, birth| Lane {
                partition: partition.clone(),
                slot,
                life,
                birth,
                holes_open: 0,
                phase: Phase::Waiting { until: now },
                core: None,
                seen: None,
                keys,
                window,
                route,
                on_undeliverable,
                schedule,
                outstanding: 0,
                sent: 0,
                committed,
                uncommitted: false,
                durable: None,
                board,
                tries: 0,
                uncertain: false,
                reopen: false,
                writer: None,
                ask: !known,
                refused: Vec::new(),
                pause: Duration::ZERO,
                fenced_at: None,
            });
            if added.is_none() {
                return Err(crate::engine::Broken("too many partitions for one instance").into());
            }
        }
        Ok(())
    }

    /// Asks the group what it has committed. Returns also whether it was asked and said so.
    fn committed(
        &self,
        partitions: &[SourcePartition],
    ) -> Result<(Vec<Option<Committed>>, bool), Error> {
        let unknown = || partitions.iter().map(|_| None).collect();
        // An open transaction of a dead instance keeps the group from answering, and taking the
        // partitions ends it.
        if partitions.is_empty() || self.flow.context.delivery.was_transactional() {
            return Ok((unknown(), false));
        }
        match self.source.committed(partitions, COMMITTED_TIMEOUT) {
            Ok(found) => {
                let found = found.into_iter().map(|found| found.map(Committed::from));
                Ok((found.collect(), true))
            }
            Err(error @ kafka::Error::Unreachable { .. }) => {
                let error = crate::error::render(&error);
                tracing::warn!(error, "asking again while the partitions are taken");
                Ok((unknown(), false))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn revoked(&mut self, partitions: &[SourcePartition], lost: bool) -> Result<(), Error> {
        tracing::info!(partitions = partitions.len(), lost, "revoked");
        if lost {
            // Until the group speaks again, nobody knows what is ours.
            self.flow.context.board.set_unassigned();
        }
        let left = self.flow.leave(&mut self.source, partitions, lost);
        let released = self.source.release(partitions);
        match left {
            // Somebody else owns them now, and catches up on what was in flight.
            Err(error) if error.is_for_the_successor() => {
                tracing::warn!(error = crate::error::render(&error), "left with records in flight");
            }
            left => left?,
        }
        Ok(released?)
    }

    // ---- looking out ---------------------------------------------------------------------------

    fn publish(&mut self, now: Instant) {
        let remaining = self.flow.lease.remaining(now);
        let reason = self.gate.reason();
        for lane in self.flow.lanes.iter() {
            lane.publish();
            lane.board.set_lease(remaining);
            let Some(core) = &lane.core else { continue };
            let lag = self.source.lag(&lane.partition, core.resume());
            lane.board.set_lag(lag.and_then(|lag| u64::try_from(lag).ok()));
            if lane.is_running() {
                match &reason {
                    Some(reason) => lane.board.set_stuck(reason.as_str()),
                    None => lane.board.set_state(crate::words::PartitionState::Running),
                }
            }
        }
    }

    /// Leaves everything and the group.
    fn stop(mut self) -> Result<(), Error> {
        let held: Vec<_> = self.flow.lanes.iter().map(|lane| lane.partition.clone()).collect();
        tracing::info!(partitions = held.len(), "stopping: draining what is in flight");
        let lost = self.source.assignment_lost() && !held.is_empty() && self.is_group();
        let left = self.flow.leave(&mut self.source, &held, lost);
        let Self { source, flow, .. } = self;
        drop(flow);
        if source.close(CLOSE_LIMIT) == Closed::Abandoned {
            tracing::warn!("the consumer did not close in time and was left behind");
        }
        left
    }

    fn is_group(&self) -> bool {
        self.flow.context.config.source.membership == Membership::Group
    }
}

/// An event that no longer borrows the source.
enum Event {
    Assigned(Vec<SourcePartition>),
    Revoked(Vec<SourcePartition>, bool),
    Committed(Result<(), crate::kafka::Error>, Instant),
    Failed(crate::kafka::Error),
}
