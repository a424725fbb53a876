//! SIGKILL over and over, at moments that hurt, while records keep coming. In the end the ledger.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::audit::{Promise, assert_kept};
use crate::support::broker::Broker;
use crate::support::config::Home;
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::writer::SteadyWriter;
use crate::support::{needs_broker, number, seed};

const PARTITIONS: i32 = 2;

/// Records there are before the first start, and in all.
const AT_FIRST: usize = 60_000;
const IN_ALL: usize = 300_000;

/// How often the program is killed unless `FIRSTSEEN_KILLS` says otherwise.
const KILLS: u64 = 60;

/// Written per second while the loop runs: most of the records come while the program is starting,
/// catching up or working, the rest when the loop is over.
const PER_SECOND: usize = 750;

/// The phases that lie between a start and the first record.
const CATCHING_UP: [Phase; 4] = [Phase::Open, Phase::Wait, Phase::CatchUp, Phase::CatchUpEnd];

/// The phases of a working program.
const WORKING: [Phase; 4] =
    [Phase::Steady, Phase::CheckpointBegin, Phase::CheckpointDurable, Phase::Commit];

/// The phases of a program that works in transactions.
const TRANSACTING: [Phase; 5] = [
    Phase::Steady,
    Phase::CheckpointBegin,
    Phase::TransactionCommit,
    Phase::Commit,
    Phase::CheckpointDurable,
];

/// What else goes wrong in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    BrokerKilled,
    BrokerFrozen,
    StateDeleted,
}

impl Trouble {
    fn of(round: u64) -> Self {
        match round % 12 {
            3 => Self::BrokerKilled,
            6 | 10 => Self::BrokerFrozen,
            8 => Self::StateDeleted,
            _ => Self::None,
        }
    }
}

/// The loop's parts and what it saw.
struct KillLoop {
    broker: Broker,
    stage: Stage,
    home: Home,
    random: StdRng,
    promises: Vec<Promise>,
    kills: u64,
    kills_catching_up: u64,
    ended_by_itself: Vec<String>,
    working: &'static [Phase],
}

#[test]
fn sixty_kills_lose_and_repeat_and_reorder_nothing() {
    needs_broker!();
    kill_over_and_over("dedup", &WORKING);
}

#[test]
fn sixty_kills_in_transactions_lose_and_repeat_nothing_and_leave_none_open() {
    needs_broker!();
    kill_over_and_over("transactional", &TRANSACTING);
}

fn kill_over_and_over(mode: &str, working: &'static [Phase]) {
    let seed = seed(&format!("kill loop, {mode}"));
    let rounds = number("FIRSTSEEN_KILLS").unwrap_or(KILLS);
    let broker = Broker::start();
    let stage = Stage::set(&broker, "killed", PARTITIONS);
    let mut writer = stage.writer(seed);
    writer.write(AT_FIRST);
    let writer = SteadyWriter::start(writer, IN_ALL - AT_FIRST, PER_SECOND);
    let home = stage.home().set("source.instance_id", "only-one").set("delivery.mode", mode);
    let started = Instant::now();
    let mut the_loop = KillLoop {
        broker,
        stage,
        home,
        random: StdRng::seed_from_u64(seed),
        promises: Vec::new(),
        kills: 0,
        kills_catching_up: 0,
        ended_by_itself: Vec::new(),
        working,
    };
    let mut round = 0;
    while the_loop.kills < rounds {
        the_loop.round(round);
        round += 1;
        assert!(round < rounds * 2 + 10, "{:?}", the_loop.ended_by_itself);
    }
    the_loop.report(started.elapsed());
    writer.finish();
    the_loop.finish(rounds);
    eprintln!("kill loop: all in {:?}", started.elapsed());
}

impl KillLoop {
    /// Starts the program, kills it at a moment of choice, and makes the round's trouble.
    fn round(&mut self, round: u64) {
        let trouble = Trouble::of(round);
        let catching_up = round.is_multiple_of(2) || round.is_multiple_of(7);
        let mut sink = Sink::start(&self.home);
        let reached = if catching_up { self.catches_up(&sink) } else { self.works(&sink) };
        match trouble {
            Trouble::BrokerKilled => self.broker.kill(),
            Trouble::BrokerFrozen => self.broker.freeze(),
            Trouble::StateDeleted | Trouble::None => {}
        }
        if trouble != Trouble::None {
            // What the program does next without its broker is worth a look, too.
            self.pause(300);
        }
        if sink.has_ended() {
            let exit = sink.wait(LEAVES_WITHIN);
            assert_eq!(exit.code, Some(1), "{}", exit.stderr);
            self.ended_by_itself.push(format!("round {round}, {trouble:?}: {}", exit.error()));
        } else {
            sink.kill();
            self.kills += 1;
            self.kills_catching_up += u64::from(catching_up && reached);
        }
        self.mend(trouble);
        self.note_promises();
    }

    /// Waits for a moment between a start and the first record.
    fn catches_up(&mut self, sink: &Sink) -> bool {
        let phase = CATCHING_UP[self.random.random_range(0..CATCHING_UP.len())];
        let reached = sink.reaches(phase, 0, STEADY_WITHIN);
        self.pause(5);
        reached
    }

    /// Waits for a moment at work: some marks into it, and a little later.
    fn works(&mut self, sink: &Sink) -> bool {
        let phase = self.working[self.random.random_range(0..self.working.len())];
        let marks = if phase == Phase::Steady { 0 } else { self.random.random_range(0..6) };
        let reached = sink.reaches(phase, marks, STEADY_WITHIN);
        self.pause(if phase == Phase::Steady { 400 } else { 5 });
        reached
    }

    fn pause(&mut self, up_to_ms: u64) {
        let micros = self.random.random_range(0..up_to_ms * 1_000);
        std::thread::sleep(Duration::from_micros(micros));
    }

    fn mend(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::None => {}
            Trouble::BrokerKilled => self.broker.restart(),
            Trouble::BrokerFrozen => {
                self.pause(1_000);
                self.broker.thaw();
            }
            Trouble::StateDeleted => self.home.lose_state(),
        }
    }

    /// Notes how far the group has committed, and only then how long the output is.
    fn note_promises(&mut self) {
        let stage = &self.stage;
        let committed = stage.admin.committed(&stage.group(), &stage.topic, PARTITIONS);
        for (partition, committed) in committed.unwrap_or_default() {
            let output_end = stage.admin.high_watermark(&stage.output, partition);
            self.promises.push(Promise { partition, committed, output_end });
        }
    }

    fn report(&self, elapsed: Duration) {
        eprintln!(
            "kill loop: {} kills in {elapsed:?}, {} while catching up; ended by itself: {:#?}",
            self.kills, self.kills_catching_up, self.ended_by_itself
        );
    }

    /// Lets a last instance finish the work, and checks everything.
    fn finish(self, rounds: u64) {
        let mut sink = Sink::start(&self.home);
        self.stage.await_drained(&mut sink);
        sink.leave(LEAVES_WITHIN).assert_drained();
        let ledger = self.stage.ledger();
        if !ledger.is_clean() {
            panic!("{ledger}\nconfig and state are kept in {:?}", self.home.keep());
        }
        assert_eq!(ledger.read, u64::try_from(IN_ALL).expect("small"));
        let stage = &self.stage;
        stage.admin.assert_nothing_open(&stage.output, PARTITIONS);
        assert_kept(&stage.address, &stage.topic, &stage.output, &self.promises);
        let third = rounds / 3;
        assert!(self.kills_catching_up >= third, "{} < {third}", self.kills_catching_up);
        assert!(!self.promises.is_empty(), "the group never committed anything");
        // Without its broker the program may give up; with it, it may not.
        let unprovoked = self.ended_by_itself.iter().find(|exit| exit.contains("None:"));
        assert_eq!(unprovoked, None);
    }
}
