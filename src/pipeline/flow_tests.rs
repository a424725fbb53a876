//! The flow without a broker: reports, checkpoints and leaving, lane by lane.

use super::*;
use crate::checkpoint::{Done, Schedule};
use crate::config::{Environment, load_text};
use crate::engine::{Core, Draft, Identity, Setup};
use crate::kafka::{Source, Written};
use crate::key::Fingerprint;
use crate::pipeline::context::Control;
use crate::pipeline::keys::Keys;
use crate::pipeline::lane::Route;
use crate::seen::{self, Found, Options, Seen, StateDir};
use crate::window::Window;
use crate::words::{Board, Checkpoint, Counts, ResumeOffset, SourcePartition, WallClock};

struct Case {
    flow: Flow,
    source: Source,
    _root: tempfile::TempDir,
}

fn case() -> Case {
    let root = tempfile::tempdir().unwrap();
    let text = format!(
        r#"
        kafka = {{ bootstrap_servers = "127.0.0.1:9" }}
        source = {{ group = "g", topics = ["t"] }}
        dedup = {{ key = "record-key", window = "1h" }}
        state = {{ dir = "{}" }}
        "#,
        root.path().join("state").display()
    );
    let env = Environment::from_pairs::<String, String>([]);
    let config = load_text(&text, "test", &env).unwrap_or_else(|faults| panic!("{faults:?}"));
    let state = StateDir::open(&config.state.dir).unwrap();
    let sink = Sink::connect(&config, None, None).unwrap();
    let source = Source::connect(&config).unwrap();
    let clock = WallClock::system();
    let board = Arc::new(Board::new(clock.now()));
    let control = Control::default();
    let context = Context { config, state, clock, incarnation: 1, board, control };
    let lease = Lease::endless(Instant::now());
    let flow = Flow::new(Arc::new(context), sink, None, lease).unwrap();
    Case { flow, source, _root: root }
}

impl Case {
    /// Lets a partition of `t` run; returns its slot.
    fn lane(&mut self, number: i32) -> u16 {
        let partition = SourcePartition::new("t", number);
        let context = Arc::clone(&self.flow.context);
        let rule = context.config.rule("t");
        let (window, now) = (Window::new(rule), Instant::now());
        let setup = Setup {
            window,
            resume: ResumeOffset(0),
            output: None,
            accounted: None,
            high_mark: Timestamp::MIN,
            counts: Counts::default(),
            incarnation: 1,
            source_topic_id: None,
            output_topic_id: None,
        };
        let identity = seen::Identity {
            source: partition.clone(),
            rule: rule.key.canonical(),
            hash: rule.hash.as_str().to_owned(),
            clock: rule.clock,
            output_topic: "t.dedup".to_owned(),
            secret_id: context.state.secret().id(),
        };
        let options = Options::new(window.segment(), 1 << 20);
        let opened = Seen::open(&context.state, &identity, &options).unwrap();
        assert!(matches!(opened.found, Found::Nothing));
        let target = self.flow.sink.target("t.dedup").unwrap();
        let output_topic = "t.dedup".to_owned();
        let route = Route { output_topic, target, source_id: None, output_id: None };
        let board = context.board.assign(std::slice::from_ref(&partition)).remove(0);
        let added = self.flow.lanes.add(|slot, life, birth| Lane {
            partition,
            slot,
            life,
            birth,
            holes_open: 0,
            phase: Phase::Running,
            core: Some(Core::new(setup)),
            seen: Some(Arc::new(opened.seen)),
            keys: Keys::new(rule, context.state.secret()),
            window,
            route,
            on_undeliverable: OnUndeliverable::Stop,
            schedule: Schedule::new(&context.config.checkpoint, now),
            outstanding: 0,
            sent: 0,
            committed: None,
            uncommitted: false,
            durable: None,
            board,
            tries: 0,
            uncertain: false,
            reopen: false,
        });
        added.expect("there is room").slot
    }

    fn get(&mut self, slot: u16) -> &mut Lane {
        self.flow.lanes.get_mut(slot).expect("it is held")
    }

    /// Delivers a record as far as the client; returns the token of its report.
    fn deliver(&mut self, slot: u16, offset: i64) -> u64 {
        let lane = self.get(slot);
        let record = Incoming {
            offset: RecordOffset(offset),
            identity: Identity::Key(Fingerprint(u128::from(offset.unsigned_abs()))),
            timestamp: None,
            arrival: Timestamp(1),
            bytes: 1,
        };
        let (Some(core), Some(seen)) = (&mut lane.core, &lane.seen) else { panic!("not taken") };
        let Ok(Verdict::Deliver(sequence)) = core.record(record, &**seen) else { panic!() };
        lane.outstanding += 1;
        Token { slot, life: lane.life, sequence }.pack()
    }

    /// Begins a checkpoint whose end the test reports itself.
    fn begin(&mut self, slot: u16) -> (u64, Draft) {
        let lane = self.get(slot);
        lane.schedule.begun(Instant::now());
        let core = lane.core.as_mut().expect("it runs");
        let draft = core.begin_checkpoint(Timestamp(1), false).expect("none is open");
        (lane.birth, draft)
    }
}

fn done(ticket: u64, draft: Draft, result: Result<seen::Stats, seen::Error>) -> Done {
    Done { ticket, draft, took: Duration::ZERO, result }
}

#[test]
fn a_record_refused_for_good_does_not_take_the_reports_behind_it_along() {
    let mut case = case();
    let slot = case.lane(0);
    let (refused, fine) = (case.deliver(slot, 0), case.deliver(slot, 1));
    let error = kafka::Error::given_up();
    let failed = Outcome::Failed { written: Written::No, kind: FailureKind::Record, error };
    let confirmed = Outcome::Confirmed { offset: Some(RecordOffset(0)) };
    let report = |token, outcome| Report { epoch: 0, token, outcome };
    case.flow.reports = vec![report(refused, failed), report(fine, confirmed)];
    let result = case.flow.serve_reports(Duration::ZERO);
    assert!(matches!(result, Err(Error::Undeliverable { .. })), "{result:?}");
    assert_eq!(case.get(slot).outstanding, 0, "a drain would wait for the lost one");
}

#[test]
fn a_checkpoint_that_failed_is_not_waited_for() {
    let mut case = case();
    let slot = case.lane(0);
    let (ticket, draft) = case.begin(slot);
    let result = case.flow.durable(done(ticket, draft, Err(seen::Error::Poisoned)));
    assert!(matches!(result, Err(Error::PartitionState { .. })), "{result:?}");
    assert!(!case.get(slot).schedule.is_open());
}

#[test]
fn a_checkpoint_that_outlives_its_lane_is_not_the_next_lane_s() {
    let mut case = case();
    let first = case.lane(0);
    let (ticket, draft) = case.begin(first);
    let late = Checkpoint { resume: ResumeOffset(500), ..draft.checkpoint.clone() };
    drop(case.flow.lanes.remove(first));
    let second = case.lane(1);
    assert_eq!(second, first, "the slot is used again");
    let draft = Draft { checkpoint: late, ..draft };
    let result = case.flow.durable(done(ticket, draft, Ok(seen::Stats::default())));
    assert!(result.is_ok(), "{result:?}");
    assert!(case.get(second).commit().is_none(), "another partition's offset");
}

#[test]
fn what_is_in_flight_when_a_partition_is_lost_is_not_left_with_the_producer() {
    let mut case = case();
    let slot = case.lane(0);
    case.deliver(slot, 0);
    let partition = case.get(slot).partition.clone();
    let left = case.flow.leave(&mut case.source, &[partition], true);
    assert!(matches!(left, Err(Error::DrainTimeout { records: 1, .. })), "{left:?}");
    assert!(case.flow.trouble.is_some());
}
