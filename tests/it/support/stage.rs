//! A source topic, its output, and the config between them.

use std::time::Duration;

use firstseen::ledger::Ledger;

use super::admin::{Admin, unique};
use super::audit;
use super::broker::Broker;
use super::config::{Home, group_of};
use super::records::Plan;
use super::sink::Sink;
use super::wait::try_until;
use super::writer::Writer;

/// How long a drain may take on a busy machine.
pub(crate) const DRAINS_WITHIN: Duration = Duration::from_secs(90);

/// How long the program may take from its start to its first steady partition, waiting out a
/// predecessor included.
pub(crate) const STEADY_WITHIN: Duration = Duration::from_secs(30);

/// How long the program may take to leave when asked to.
pub(crate) const LEAVES_WITHIN: Duration = Duration::from_secs(20);

/// The window that a new home has.
const WINDOW: Duration = Duration::from_secs(24 * 3_600);

/// Two topics on a broker.
pub(crate) struct Stage {
    pub(crate) address: String,
    pub(crate) admin: Admin,
    pub(crate) topic: String,
    pub(crate) output: String,
    pub(crate) partitions: i32,
    /// The window the ledger judges by.
    pub(crate) window: Duration,
}

impl Stage {
    /// Makes a source topic and its output with as many partitions.
    pub(crate) fn set(broker: &Broker, stem: &str, partitions: i32) -> Self {
        let stage = Self::set_without_output(broker, stem, partitions);
        stage.admin.create(&stage.output, partitions);
        stage
    }

    /// Makes the source topic only.
    pub(crate) fn set_without_output(broker: &Broker, stem: &str, partitions: i32) -> Self {
        let (admin, topic) = (Admin::of(broker), unique(stem));
        admin.create(&topic, partitions);
        let output = format!("{topic}.dedup");
        Self { address: broker.address(), admin, topic, output, partitions, window: WINDOW }
    }

    /// Returns a home whose config reads and writes these topics.
    pub(crate) fn home(&self) -> Home {
        Home::new(&self.address, &self.topic)
    }

    /// Returns a writer to the source with the usual plan.
    pub(crate) fn writer(&self, seed: u64) -> Writer {
        self.writer_of(Plan::over(self.partitions), seed)
    }

    /// Returns a writer to the source with a plan.
    pub(crate) fn writer_of(&self, plan: Plan, seed: u64) -> Writer {
        Writer::new(&self.address, &self.topic, plan, seed)
    }

    /// Waits until `sink` has settled and committed everything in the source.
    ///
    /// # Panics
    /// Where that takes too long or the program ends, with how far it came and what it told.
    pub(crate) fn await_drained(&self, sink: &mut Sink) {
        let done = || (sink.has_ended() || self.is_drained()).then(|| self.is_drained());
        if try_until(DRAINS_WITHIN, done) == Some(true) {
            return;
        }
        let committed = self.admin.committed(&self.group(), &self.topic, self.partitions);
        let ends = self.admin.ends(&self.topic, self.partitions);
        panic!("not drained: committed {committed:?} of {ends:?}; it told:\n{}", sink.stderr());
    }

    /// Returns whether everything in the source is settled and committed.
    pub(crate) fn is_drained(&self) -> bool {
        self.admin.is_drained(&self.group(), &self.topic, self.partitions)
    }

    /// Returns the consumer group.
    pub(crate) fn group(&self) -> String {
        group_of(&self.topic)
    }

    /// Returns how far each output partition goes.
    pub(crate) fn output_ends(&self) -> Vec<i64> {
        self.admin.ends(&self.output, self.partitions)
    }

    /// Judges the output.
    pub(crate) fn ledger(&self) -> Ledger {
        audit::ledger(&self.address, &self.topic, &self.output, self.partitions, self.window)
    }

    /// Judges the output and fails unless it is clean.
    pub(crate) fn assert_clean(&self) -> Ledger {
        let ledger = self.ledger();
        audit::assert_clean(&ledger);
        ledger
    }
}
