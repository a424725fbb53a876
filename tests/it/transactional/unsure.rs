//! Answers that are late or lost in the middle of a commit, and bytes that outlive who sent them.

use std::time::Duration;

use super::{ABORTED, ANEW, transactional};
use crate::support::broker::shared;
use crate::support::needs_broker;
use crate::support::proxy::{Api, Frames, Proxy};
use crate::support::seed;
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::until;
use crate::support::writer::SteadyWriter;

/// How long the program may take to notice and to go on.
const MENDS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The broker has done it; nobody says so.
    CutBeforeAnswer,
    /// The broker gets half of it.
    CutInside,
    /// The answer comes after the request was given up.
    Late(Duration),
    /// The request itself comes when the next transactions are under way.
    Overtaken,
}

/// Lets each of these requests be troubled again and again while records come, and checks that the
/// program made new producers, and that nothing is lost, repeated or left open.
fn troubled(stem: &str, api: Api, trouble: Trouble) {
    let stage = Stage::set(shared(), stem, 1);
    let proxy = Proxy::before(&stage.address);
    let home = transactional(&stage)
        .set("kafka.bootstrap_servers", proxy.address())
        .set("kafka.client.socket.timeout.ms", "2000")
        .set("checkpoint.interval", "100ms");
    let writer = SteadyWriter::start(stage.writer(seed(stem)), 40_000, 300);
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Commit, STEADY_WITHIN);
    for round in 0..3_usize {
        let frames = Frames::of(api).after(round).at_most(1);
        let rule = match trouble {
            Trouble::CutBeforeAnswer => proxy.cut_before_answers(frames),
            Trouble::CutInside => proxy.cut_inside(frames),
            Trouble::Late(delay) => proxy.delay_answers(frames, delay),
            Trouble::Overtaken => proxy.hold(frames),
        };
        let (before, commits) = (sink.metric(ANEW).unwrap_or(0.0), sink.count(Phase::Commit));
        rule.await_count(1, MENDS_WITHIN);
        until("a new producer", MENDS_WITHIN, || {
            (sink.metric(ANEW).unwrap_or(0.0) > before).then_some(())
        });
        sink.await_phase_again(Phase::Commit, commits + 2, MENDS_WITHIN);
        rule.lift();
        if matches!(trouble, Trouble::Overtaken) {
            rule.await_answered(1, MENDS_WITHIN);
        }
    }
    writer.finish();
    stage.await_drained(&mut sink);
    let (anew, aborted) = (sink.metric(ANEW), sink.metric(ABORTED));
    eprintln!("{stem}: {anew:?} new producers, {aborted:?} transactions undone");
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.admin.assert_nothing_open(&stage.output, 1);
    stage.assert_clean();
}

#[test]
fn a_commit_whose_answer_is_lost_costs_a_producer_and_no_record() {
    needs_broker!();
    troubled("end-lost", Api::END_TXN, Trouble::CutBeforeAnswer);
}

#[test]
fn a_commit_that_is_cut_in_half_costs_a_producer_and_no_record() {
    needs_broker!();
    troubled("end-cut", Api::END_TXN, Trouble::CutInside);
}

#[test]
fn a_commit_that_is_answered_late_costs_a_producer_and_no_record() {
    needs_broker!();
    troubled("end-late", Api::END_TXN, Trouble::Late(Duration::from_secs(3)));
}

#[test]
fn a_commit_that_later_ones_overtake_ends_none_of_them() {
    needs_broker!();
    troubled("end-overtaken", Api::END_TXN, Trouble::Overtaken);
}

#[test]
fn offsets_that_later_ones_overtake_do_not_turn_the_group_back() {
    needs_broker!();
    troubled("offsets-overtaken", Api::TXN_OFFSET_COMMIT, Trouble::Overtaken);
}

#[test]
fn offsets_whose_answer_is_lost_cost_a_producer_and_no_record() {
    needs_broker!();
    troubled("offsets-lost", Api::TXN_OFFSET_COMMIT, Trouble::CutBeforeAnswer);
}

#[test]
fn offsets_that_are_answered_late_cost_a_producer_and_no_record() {
    needs_broker!();
    troubled("offsets-late", Api::TXN_OFFSET_COMMIT, Trouble::Late(Duration::from_secs(3)));
}

/// A dead instance's records reach the broker when its successor is at work.
#[test]
fn records_that_outlive_their_writer_are_refused() {
    needs_broker!();
    let stage = Stage::set(shared(), "outlived", 1);
    let proxy = Proxy::before(&stage.address);
    let direct = transactional(&stage).set("source.instance_id", "only-one");
    let behind = transactional(&stage)
        .set("source.instance_id", "only-one")
        .set("kafka.bootstrap_servers", proxy.address());
    let writer = SteadyWriter::start(stage.writer(seed("outlived")), 60_000, 500);
    for _ in 0..3 {
        let mut first = Sink::start(&behind);
        first.await_phase(Phase::Commit, STEADY_WITHIN);
        let held = proxy.hold(Frames::of(Api::PRODUCE));
        held.await_count(1, MENDS_WITHIN);
        first.kill();
        proxy.cut_clients();
        let mut second = Sink::start(&direct);
        let commits = second.count(Phase::Commit);
        second.await_phase_again(Phase::Commit, commits, STEADY_WITHIN);
        held.lift();
        held.await_answered(1, MENDS_WITHIN);
        second.await_phase_again(Phase::Commit, commits + 2, STEADY_WITHIN);
        assert_eq!(second.metric("firstseen_late_writes_total"), Some(0.0));
        second.leave(LEAVES_WITHIN).assert_drained();
    }
    writer.finish();
    let mut last = Sink::start(&direct);
    stage.await_drained(&mut last);
    last.leave(LEAVES_WITHIN).assert_drained();
    stage.admin.assert_nothing_open(&stage.output, 1);
    stage.assert_clean();
}
