//! Partitions that move between two instances under load.

use std::time::Duration;

use crate::support::broker::shared;
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::writer::SteadyWriter;
use crate::support::{needs_broker, seed};

const PARTITIONS: i32 = 4;

/// How often the second instance joins; every third time it is killed instead of asked to leave.
const VISITS: usize = 4;

/// How long the second instance stays once it has partitions.
const STAY: Duration = Duration::from_millis(700);

#[test]
fn partitions_that_come_and_go_lose_and_repeat_nothing() {
    needs_broker!();
    let stem = "come-and-go";
    let stage = Stage::set(shared(), stem, PARTITIONS);
    let (first_home, second_home) = (stage.home(), stage.home());
    let writer = SteadyWriter::start(stage.writer(seed(stem)), 60_000, 2_000);
    let mut first = Sink::start(&first_home);
    first.await_phase(Phase::Commit, STEADY_WITHIN);
    for visit in 1..=VISITS {
        let mut second = Sink::start(&second_home);
        second.await_phase(Phase::Steady, STEADY_WITHIN);
        std::thread::sleep(STAY);
        let taken_back = first.count(Phase::Steady);
        if visit % 3 == 0 {
            second.kill();
        } else {
            second.leave(LEAVES_WITHIN).assert_drained();
        }
        first.await_phase_again(Phase::Steady, taken_back, STEADY_WITHIN);
    }
    writer.finish();
    stage.await_drained(&mut first);
    first.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn a_key_is_known_to_whichever_instance_owns_its_partition() {
    needs_broker!();
    let stage = Stage::set(shared(), "handover", 2);
    let (first_home, second_home) = (stage.home(), stage.home());
    let mut writer = stage.writer(seed("handover"));
    // Each instance in turn is the only one; the second never saw the first one's state, and the
    // first one's state is old when it comes back.
    for home in [&first_home, &second_home, &first_home, &second_home] {
        writer.write(5_000);
        let mut sink = Sink::start(home);
        stage.await_drained(&mut sink);
        sink.leave(LEAVES_WITHIN).assert_drained();
    }
    stage.assert_clean();
}
