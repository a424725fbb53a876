//! Bytes that are under way when their sender dies, freezes or gives up, and land after somebody
//! else took over; and answers that never come.
//!
//! A proxy holds what an instance has sent to the output. Kafka has no fence against it, so the
//! copies land: what is promised is that none is lost, that each one is counted and located, and
//! that it is the last of its key.

use std::collections::BTreeSet;
use std::time::Duration;

use firstseen::ledger::Ledger;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::broker::shared;
use crate::support::config::Home;
use crate::support::proxy::{Api, Frames, Proxy, Rule};
use crate::support::reader::read_all;
use crate::support::records::Plan;
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::try_until;
use crate::support::writer::{SteadyWriter, Writer};
use crate::support::{needs_broker, seed};

/// How soon frames must come that are sure to come.
const SOON: Duration = Duration::from_secs(20);

/// An instance that sends nothing looks every five seconds for what others wrote.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// Records that are forwarded in peace.
const PEACEFUL: usize = 500;

/// Records of which some are under way when their sender ends.
const UNDER_WAY: usize = 300;

/// One partition, and a proxy that the first instance goes through.
struct Scene {
    stage: Stage,
    proxy: Proxy,
    writer: Writer,
}

/// Bytes held at the proxy.
struct Held {
    rule: Rule,
    count: usize,
}

/// Records that landed: from this output offset up to that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Landed {
    from: i64,
    to: i64,
}

impl Landed {
    fn count(self) -> u64 {
        u64::try_from(self.to - self.from).expect("the output does not shrink")
    }
}

/// A repeat that an instance told of.
#[derive(Clone, Copy, Debug)]
struct Told {
    late: i64,
    ours: Option<i64>,
}

impl Scene {
    fn set(stem: &str) -> Self {
        let stage = Stage::set(shared(), stem, 1);
        let plan = Plan { odd: false, duplicate_one_in: 0, ..Plan::over(1) };
        let (proxy, writer) =
            (Proxy::before(&shared().address()), stage.writer_of(plan, seed(stem)));
        Self { stage, proxy, writer }
    }

    /// A home whose clients go through the proxy under a name, without a group: who comes next
    /// need not wait.
    fn home(&self, name: &str) -> Home {
        self.grouped(name).set("source.membership", "alone")
    }

    fn grouped(&self, name: &str) -> Home {
        Home::new(&self.proxy.address(), &self.stage.topic)
            .set_client("kafka", "client.id", name)
            // The client has one request under way where it holds more than a few records.
            .set_client("sink", "linger.ms", "100")
    }

    /// Has an instance forward records in peace, and holds what it sends of some more.
    fn hold_what_is_sent(&mut self, home: &Home, name: &str) -> (Sink, Held) {
        let mut sink = Sink::start(home);
        self.writer.write(PEACEFUL);
        self.stage.await_drained(&mut sink);
        let rule = self.proxy.hold(Frames::of(Api::PRODUCE).of_client(name));
        self.writer.write(UNDER_WAY);
        rule.await_count(1, SOON);
        (sink, Held { count: 0, rule })
    }

    /// The same, and kills the instance.
    fn die_with_bytes_under_way(&mut self, home: &Home, name: &str) -> Held {
        let (mut sink, mut held) = self.hold_what_is_sent(home, name);
        sink.kill();
        held.count = held.rule.count();
        held
    }

    fn end(&self) -> i64 {
        self.stage.output_ends()[0]
    }

    /// Lets the held bytes land while nobody else writes.
    fn land(&self, held: &Held) -> Landed {
        let from = self.end();
        held.rule.lift();
        held.rule.await_answered(held.count, SOON);
        let landed = Landed { from, to: self.end() };
        assert!(landed.count() > 0, "nothing landed");
        landed
    }

    /// Writes every key once more, none of which may reach the output.
    fn write_copies(&self, name: &str) {
        let plan = Plan { odd: false, duplicate_one_in: 0, ..Plan::over(1) };
        self.stage.writer_of(plan, seed(name)).write(PEACEFUL + UNDER_WAY);
    }

    /// Ends the play: every key comes again, the instance leaves, and the output is judged.
    fn judge(&self, stem: &str, mut sink: Sink) -> (Ledger, Vec<Told>) {
        let before = self.end();
        self.write_copies(stem);
        self.stage.await_drained(&mut sink);
        let told = told(&sink);
        sink.leave(LEAVES_WITHIN).assert_drained();
        assert_eq!(self.end(), before, "a key whose copies had landed was written once more");
        let ledger = self.stage.ledger();
        let wrong = ledger.lost + ledger.altered + ledger.phantom;
        assert_eq!(wrong, 0, "{ledger}");
        (ledger, told)
    }

    /// Fails unless each repeat told has the same key at both places, and together they name each
    /// output offset in `landed` once.
    fn assert_located(&self, told: &[Told], landed: Landed) {
        let output = read_all(&self.stage.address, &self.stage.output, 0);
        let key = |offset: i64| {
            let found = output.iter().find(|record| record.offset.0 == offset);
            found.and_then(|record| record.key.clone()).expect("there is a record")
        };
        for told in told {
            let ours = told.ours.unwrap_or_else(|| panic!("{told:?} has one place only"));
            assert!(ours != told.late && key(ours) == key(told.late), "{told:?} are not copies");
        }
        let named: BTreeSet<i64> = told.iter().map(|told| told.late).collect();
        assert_eq!(named, (landed.from..landed.to).collect(), "what landed and what was told");
        assert_eq!(told.len(), named.len(), "a copy was told twice");
    }
}

/// Returns the repeats that an instance told of in its log.
fn told(sink: &Sink) -> Vec<Told> {
    let stderr = sink.stderr();
    let lines = stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| {
            let message = line.get("message").and_then(Value::as_str).unwrap_or_default();
            message.starts_with("the output holds a key twice")
        })
        .map(|line| Told {
            late: line["late"].as_i64().expect("an offset"),
            ours: line.get("ours").and_then(Value::as_i64),
        })
        .collect()
}

/// Waits until the instance has counted so many late writes; returns how many of them it counted
/// as repeats.
fn await_counted(sink: &Sink, late: u64) -> u64 {
    let metric = |name| sink.metric(name)?.to_string().parse::<u64>().ok();
    let all = try_until(NOTICED_WITHIN, || {
        (metric("firstseen_late_writes_total") == Some(late)).then_some(())
    });
    let counted = metric("firstseen_late_writes_total");
    assert!(all.is_some(), "{late} landed, {counted:?} counted; it told:\n{}", sink.stderr());
    metric("firstseen_late_writes_repeated_total").expect("it answers")
}

#[test]
fn late_copies_of_what_the_successor_wrote_are_each_counted_and_located() {
    needs_broker!();
    let stem = "late-copies";
    let mut scene = Scene::set(stem);
    let (home, next) = (scene.home("first"), scene.home("second"));
    let held = scene.die_with_bytes_under_way(&home, "first");
    let mut second = Sink::start(&next);
    scene.stage.await_drained(&mut second);
    let landed = scene.land(&held);
    assert_eq!(await_counted(&second, landed.count()), landed.count());
    let (ledger, told) = scene.judge(stem, second);
    scene.assert_located(&told, landed);
    assert_eq!(ledger.repeated, landed.count());
}

#[test]
fn several_late_requests_are_each_counted_and_located() {
    needs_broker!();
    let stem = "late-several";
    let mut scene = Scene::set(stem);
    let small = |home: Home| home.set_client("sink", "batch.num.messages", "1");
    let (home, next) = (small(scene.home("first")), scene.home("second"));
    let (mut first, mut held) = scene.hold_what_is_sent(&home, "first");
    held.rule.await_count(3, SOON);
    first.kill();
    held.count = held.rule.count();
    let mut second = Sink::start(&next);
    scene.stage.await_drained(&mut second);
    let landed = scene.land(&held);
    assert!(landed.count() >= 3, "{landed:?}");
    assert_eq!(await_counted(&second, landed.count()), landed.count());
    let (ledger, told) = scene.judge(stem, second);
    scene.assert_located(&told, landed);
    assert_eq!(ledger.repeated, landed.count());
}

#[test]
fn late_bytes_of_what_the_successor_has_not_read_yet_are_taken_as_written() {
    needs_broker!();
    let stem = "late-first";
    let mut scene = Scene::set(stem);
    let home = scene.home("first");
    let held = scene.die_with_bytes_under_way(&home, "first");
    // The same state, so there is nothing to catch up on: the first fetch is for source records.
    let home = home.set_client("kafka", "client.id", "again");
    let unread = scene.proxy.hold(Frames::of(Api::FETCH).of_client("again").at_most(1));
    let mut second = Sink::start(&home);
    second.await_phase(Phase::Steady, STEADY_WITHIN);
    unread.await_count(1, SOON);
    let landed = scene.land(&held);
    assert_eq!(await_counted(&second, landed.count()), 0);
    unread.lift();
    scene.stage.await_drained(&mut second);
    let (ledger, told) = scene.judge(stem, second);
    assert!(ledger.is_clean() && told.is_empty(), "{ledger}, told {told:?}");
}

#[test]
fn late_bytes_that_land_before_the_successors_own_under_way_are_located() {
    needs_broker!();
    let stem = "late-crossing";
    let mut scene = Scene::set(stem);
    let (home, next) = (scene.home("first"), scene.home("second"));
    let held = scene.die_with_bytes_under_way(&home, "first");
    let own = scene.proxy.hold(Frames::of(Api::PRODUCE).of_client("second"));
    let mut second = Sink::start(&next);
    own.await_count(1, SOON);
    let landed = scene.land(&held);
    own.lift();
    scene.stage.await_drained(&mut second);
    let repeated = await_counted(&second, landed.count());
    let (ledger, told) = scene.judge(stem, second);
    assert_eq!(ledger.repeated, repeated, "on the output, and counted");
    assert_eq!(u64::try_from(told.len()), Ok(repeated), "counted, and told");
}

#[test]
fn late_bytes_that_land_while_the_successor_catches_up_are_counted() {
    needs_broker!();
    let stem = "late-catch-up";
    let mut scene = Scene::set(stem);
    let (home, next) = (scene.home("first"), scene.home("second"));
    let held = scene.die_with_bytes_under_way(&home, "first");
    let reading = scene.proxy.hold(Frames::of(Api::FETCH).of_client("second"));
    let mut second = Sink::start(&next);
    // How far it will read is settled by now.
    second.await_phase(Phase::CatchUp, STEADY_WITHIN);
    reading.await_count(1, SOON);
    let landed = scene.land(&held);
    reading.lift();
    scene.stage.await_drained(&mut second);
    let repeated = await_counted(&second, landed.count());
    let (ledger, told) = scene.judge(stem, second);
    assert_eq!(ledger.repeated, repeated, "on the output, and counted");
    assert_eq!(u64::try_from(told.len()), Ok(repeated), "counted, and told");
}

#[test]
fn late_copies_that_land_while_nobody_runs_are_the_last_of_their_keys() {
    needs_broker!();
    let stem = "late-restart";
    let mut scene = Scene::set(stem);
    let (home, next) = (scene.home("first"), scene.home("second"));
    let held = scene.die_with_bytes_under_way(&home, "first");
    let mut second = Sink::start(&next);
    scene.stage.await_drained(&mut second);
    second.kill();
    let landed = scene.land(&held);
    let third = Sink::start(&next);
    third.await_phase(Phase::Steady, STEADY_WITHIN);
    let (ledger, _told) = scene.judge(stem, third);
    assert_eq!(ledger.repeated, landed.count());
}

#[test]
fn a_frozen_instances_late_bytes_are_counted_and_it_wakes_up_without_harm() {
    needs_broker!();
    let stem = "late-frozen";
    let mut scene = Scene::set(stem);
    let quick = |home: Home| {
        home.set("source.session_timeout", "4s").set("sink.delivery_timeout", "1500ms")
    };
    let (home, next) = (quick(scene.grouped("first")), quick(scene.grouped("second")));
    let (mut first, mut held) = scene.hold_what_is_sent(&home, "first");
    first.signal(Signal::STOP);
    held.count = held.rule.count();
    let mut second = Sink::start(&next);
    scene.stage.await_drained(&mut second);
    let landed = scene.land(&held);
    assert_eq!(await_counted(&second, landed.count()), landed.count());
    first.signal(Signal::CONT);
    // What its client still holds may follow, until it notices that it was asleep.
    first.await_phase(Phase::Close, STEADY_WITHIN);
    let landed = Landed { to: settled_end(&scene, landed.to), ..landed };
    assert_eq!(await_counted(&second, landed.count()), landed.count());
    let (ledger, told) = scene.judge(stem, second);
    scene.assert_located(&told, landed);
    first.leave(LEAVES_WITHIN);
    assert_eq!(ledger.repeated, landed.count());
    assert_eq!(scene.stage.ledger().repeated, landed.count(), "it wrote once more");
}

#[test]
fn bytes_that_land_after_their_sender_gave_them_up_are_located_by_itself() {
    needs_broker!();
    let stem = "late-own";
    let mut scene = Scene::set(stem);
    let home = scene.home("only");
    let mut sink = Sink::start(&home);
    scene.writer.write(PEACEFUL);
    scene.stage.await_drained(&mut sink);
    // What comes behind it on its connection waits, too; the next producer has another one.
    let rule = scene.proxy.hold(Frames::of(Api::PRODUCE).of_client("only").at_most(1));
    scene.writer.write(UNDER_WAY);
    scene.stage.await_drained(&mut sink);
    assert_eq!(sink.metric("firstseen_producer_restarts_total"), Some(1.0));
    let landed = scene.land(&Held { rule, count: 1 });
    let landed = Landed { to: settled_end(&scene, landed.to), ..landed };
    assert_eq!(await_counted(&sink, landed.count()), landed.count());
    let (ledger, told) = scene.judge(stem, sink);
    scene.assert_located(&told, landed);
    assert_eq!(ledger.repeated, landed.count());
}

/// Returns the output's end once it stands still: frames behind a held one follow it.
fn settled_end(scene: &Scene, mut end: i64) -> i64 {
    const STILL: Duration = Duration::from_millis(500);
    while let Some(further) = try_until(STILL, || Some(scene.end()).filter(|now| *now > end)) {
        end = further;
    }
    end
}

/// Has an instance forward records while `network` does its worst; fails unless nothing comes of
/// it. Returns how often the producer was made anew.
fn forward_through(stem: &str, network: impl FnOnce(&Proxy, &Sink)) -> f64 {
    let Scene { stage, proxy, .. } = Scene::set(stem);
    let home = Home::new(&proxy.address(), &stage.topic)
        .set_client("sink", "batch.num.messages", "100")
        .set_client("kafka", "reconnect.backoff.max.ms", "100");
    let writer = SteadyWriter::start(stage.writer(seed(stem)), 12_000, 4_000);
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Commit, STEADY_WITHIN);
    network(&proxy, &sink);
    writer.finish();
    stage.await_drained(&mut sink);
    let late = sink.metric("firstseen_late_writes_total");
    let restarts = sink.metric("firstseen_producer_restarts_total");
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
    assert_eq!(late, Some(0.0), "its own records were taken for somebody else's");
    restarts.expect("it answered")
}

#[test]
fn answers_that_are_lost_with_their_connection_cost_nothing() {
    needs_broker!();
    let restarts = forward_through("lost-answers", |proxy, _| {
        for _ in 0..5 {
            let frames = Frames::of(Api::PRODUCE).after(2).at_most(1);
            proxy.cut_before_answers(frames).await_count(1, SOON);
        }
    });
    assert_eq!(restarts, 0.0, "the client gets over it by itself");
}

#[test]
fn requests_that_are_cut_in_the_middle_cost_nothing() {
    needs_broker!();
    let restarts = forward_through("cut-requests", |proxy, _| {
        for _ in 0..5 {
            let frames = Frames::of(Api::PRODUCE).after(2).at_most(1);
            proxy.cut_inside(frames).await_count(1, SOON);
        }
        proxy.cut_inside(Frames::of(Api::OFFSET_COMMIT).at_most(1)).await_count(1, SOON);
    });
    assert_eq!(restarts, 0.0, "the client gets over it by itself");
}

#[test]
fn answers_that_never_come_are_read_back_from_the_output() {
    needs_broker!();
    let restarts = forward_through("no-answers", |proxy, sink| {
        let rule = proxy.drop_answers(Frames::of(Api::PRODUCE));
        rule.await_answered(1, SOON);
        let again = sink.count(Phase::CatchUp);
        sink.await_phase_again(Phase::CatchUp, again, STEADY_WITHIN);
        rule.lift();
    });
    assert!(restarts >= 1.0, "nothing was uncertain");
}

#[test]
fn a_network_that_is_gone_for_a_while_costs_nothing() {
    needs_broker!();
    forward_through("no-network", |proxy, sink| {
        proxy.refuse(true);
        proxy.cut_all();
        let unready = try_until(STEADY_WITHIN, || (!sink.is_ready()).then_some(()));
        proxy.refuse(false);
        assert!(unready.is_some(), "ready without a broker");
    });
}
