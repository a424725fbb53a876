//! The flow without a broker: reports, checkpoints and leaving, lane by lane.

use super::*;
use crate::checkpoint::{Chosen, Decision, Done, Reason, Schedule};
use crate::config::{Config, Environment, load_text};
use crate::engine::{Core, Draft, Identity, Setup};
use crate::kafka::{RecordLimits, Source, Written};
use crate::key::Fingerprint;
use crate::pipeline::context::Control;
use crate::pipeline::keys::Keys;
use crate::pipeline::lane::Route;
use crate::pipeline::mode::Delivery;
use crate::pipeline::transact::Writer;
use crate::seen::{self, Found, Options, Seen, StateDir};
use crate::window::Window;
use crate::words::{Aborted, Board, Checkpoint, Counts, ResumeOffset, SourcePartition, WallClock};

struct Case {
    flow: Flow,
    source: Source,
    _root: tempfile::TempDir,
}

fn case() -> Case {
    case_of(Chosen::Dedup)
}

fn case_of(chosen: Chosen) -> Case {
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
    let delivery = delivery(chosen, &config);
    let source = Source::connect(&config).unwrap();
    let clock = WallClock::system();
    let board = Arc::new(Board::new(clock.now()));
    let control = Control::default();
    let context = Context { config, state, clock, incarnation: 1, board, control, delivery };
    let lease = Lease::endless(Instant::now());
    let flow = Flow::new(Arc::new(context), sink, None, lease).unwrap();
    Case { flow, source, _root: root }
}

fn delivery(chosen: Chosen, config: &Config) -> Delivery {
    let decision = Decision {
        chosen,
        reason: Reason::Configured,
        plain: false,
        was_transactional: false,
        at: Timestamp(0),
    };
    Delivery::new(decision, config, RecordLimits::default())
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
        let route =
            Route { output_topic, target, source_id: None, output_id: None, limit_bytes: None };
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
            writer: None,
            ask: false,
            refused: Vec::new(),
            pause: Duration::ZERO,
            fenced_at: None,
        });
        added.expect("there is room").slot
    }

    /// Lets a partition run in transactions; its producer has no broker.
    fn transacting(&mut self, number: i32) -> u16 {
        let slot = self.lane(number);
        self.give_writer(slot);
        slot
    }

    fn give_writer(&mut self, slot: u16) {
        let context = Arc::clone(&self.flow.context);
        let lane = self.get(slot);
        let writes = context.delivery.transactions_of(&lane.partition);
        let limits = RecordLimits::default();
        let sink = Sink::connect_as(&context.config, limits, &writes).unwrap();
        lane.writer = Some(Box::new(Writer::new(sink, &lane.route, &context).unwrap()));
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

#[test]
fn what_a_transaction_had_settled_is_forgotten_when_it_is_undone() {
    let mut case = case_of(Chosen::Transactional);
    let slot = case.transacting(0);
    let token = case.deliver(slot, 0);
    let confirmed = Outcome::Confirmed { offset: Some(RecordOffset(0)) };
    case.flow.reports = vec![Report { epoch: 0, token, outcome: confirmed }];
    case.flow.serve_reports(Duration::ZERO).unwrap();
    let lane = case.get(slot);
    lane.schedule.begun(Instant::now());
    lane.seal(false, true);
    case.flow.undo(slot, Aborted::Unknown, kafka::Error::going_back()).unwrap();
    let lane = case.get(slot);
    assert!(matches!(lane.phase, Phase::Rewinding), "{:?}", lane.phase);
    assert!(lane.core.is_none() && lane.seen.is_none() && lane.reopen, "it is taken anew");
    assert!(!lane.schedule.is_open(), "a checkpoint that never comes would be waited for");
    let transactions = case.flow.context.board.snapshot().transactions;
    assert_eq!(transactions.anew, [1, 0, 0]);
}

#[test]
fn an_id_that_is_taken_twice_in_a_row_stops_the_program() {
    let mut case = case_of(Chosen::Transactional);
    let slot = case.transacting(0);
    case.flow.undo(slot, Aborted::Fenced, kafka::Error::going_back()).unwrap();
    let lane = case.get(slot);
    assert!(lane.pause >= Duration::from_secs(1), "the group must get to take it away");
    lane.phase = Phase::Running;
    case.give_writer(slot);
    let again = case.flow.undo(slot, Aborted::Fenced, kafka::Error::going_back());
    assert!(again.is_err());
}

#[test]
fn what_is_undone_while_leaving_is_told_unless_the_group_gave_it_away() {
    for (why, told) in [(Aborted::Unknown, true), (Aborted::Membership, false)] {
        let mut case = case_of(Chosen::Transactional);
        let slot = case.transacting(0);
        case.get(slot).phase = Phase::Leaving;
        case.flow.undo(slot, why, kafka::Error::going_back()).unwrap();
        assert_eq!(case.flow.left_undone.is_some(), told, "{why:?}");
        assert!(matches!(case.get(slot).phase, Phase::Leaving));
    }
}

#[test]
fn no_older_offset_is_committed_while_a_transaction_is_on_its_way() {
    let mut case = case_of(Chosen::Transactional);
    let slot = case.transacting(0);
    let (_, draft) = case.begin(slot);
    let lane = case.get(slot);
    lane.followed(draft.checkpoint);
    assert!(lane.renewal().is_some(), "an idle lane shows that it lives");
    lane.seal(false, true);
    assert_eq!(lane.renewal(), None);
}
