//! Watching the output for records that are not ours: reads holes, and asks for the end.
//!
//! One thread with a reader of its own, so that the flow never waits for it. What it finds goes
//! back to the polling thread, which owns the cores.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::engine::{Broken, Hole, Written};
use crate::kafka::{self, Cluster, OutputReader, TopicFacts};
use crate::words::{Failure, OutputPosition, SourcePartition, TopicId};

use super::Error;
use super::context::Context;
use super::flow::Flow;
use super::keys::Keys;
use super::lane::{Lane, Phase};
use super::take::{IDLE_LIMIT, REQUEST_TIMEOUT, report_repeat};

/// How many questions may wait.
const QUEUE: usize = 4_096;

/// How often a lane that sends nothing asks for the output's end.
pub(super) const QUIET_EVERY: Duration = Duration::from_secs(5);

/// How often it is looked up whether a topic is still the same one.
pub(super) const TOPICS_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
enum Question {
    Hole { hole: Hole, keys: Box<Keys> },
    End { sent: u64 },
    Topics,
}

#[derive(Debug)]
enum Answer {
    Topics { source: Topic, output: Topic },
    Hole { hole: Hole, found: Vec<Written> },
    End { sent: u64, end: OutputPosition },
}

/// What the brokers say of a topic by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    Gone,
    There { id: Option<TopicId>, partitions: i32 },
}

#[derive(Debug)]
struct Asked {
    slot: u16,
    birth: u64,
    partition: SourcePartition,
    topic: String,
    question: Question,
}

/// The thread's handle. The thread ends soon after this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    over: Arc<AtomicBool>,
    ask: Sender<Asked>,
    answers: Receiver<(u16, u64, Answer)>,
}

impl Watch {
    pub(super) fn start(context: Arc<Context>) -> Result<Self, Error> {
        let (ask, asked) = bounded::<Asked>(QUEUE);
        let (outbox, answers) = bounded(QUEUE);
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let work = move || {
            let mut reader = None;
            for question in asked {
                let (slot, birth) = (question.slot, question.birth);
                if let Some(answer) = answer(&context, &mut reader, question, &ends)
                    && outbox.send((slot, birth, answer)).is_err()
                {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("watch".into()).spawn(work).map_err(Error::Thread)?;
        Ok(Self { over, ask, answers })
    }

    /// Has a hole read. Until it is, the lane makes no checkpoint and does not go back: either
    /// would move its output position past records that nobody has looked at.
    pub(super) fn read_hole(&self, lane: &mut Lane, hole: Hole) -> Result<(), Error> {
        let keys = Box::new(lane.keys.clone());
        let asked = asked(lane, Question::Hole { hole, keys });
        lane.holes_open += 1;
        let put = self.ask.send_timeout(asked, IDLE_LIMIT);
        put.map_err(|_asked| Broken("holes in the output are no longer read").into())
    }

    /// Has the output's end looked up.
    pub(super) fn ask_end(&self, lane: &Lane) {
        // Asked again soon; one that finds no room is not missed.
        drop(self.ask.try_send(asked(lane, Question::End { sent: lane.sent })));
    }

    /// Has it looked up whether the lane's topics are still the ones it was taken with.
    pub(super) fn ask_topics(&self, lane: &Lane) {
        // Asked again soon; one that finds no room is not missed.
        drop(self.ask.try_send(asked(lane, Question::Topics)));
    }
}

fn asked(lane: &Lane, question: Question) -> Asked {
    Asked {
        slot: lane.slot,
        birth: lane.birth,
        partition: lane.partition.clone(),
        topic: lane.route.output_topic.clone(),
        question,
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Flow {
    /// Takes in what the watch has found.
    pub(super) fn serve_watch(&mut self) -> Result<(), Error> {
        while let Ok((slot, birth, answer)) = self.watch.answers.try_recv() {
            let Some(lane) = self.lanes.get_mut(slot).filter(|lane| lane.birth == birth) else {
                continue;
            };
            match answer {
                Answer::Hole { hole, found } => {
                    lane.holes_open = lane.holes_open.saturating_sub(1);
                    take_in(lane, hole, found)?;
                }
                Answer::End { sent, end } if sent == lane.sent => {
                    if let Some(hole) = lane.core.as_mut().and_then(|core| core.quiet_end(end)) {
                        self.watch.read_hole(lane, hole)?;
                    }
                }
                Answer::End { .. } => {}
                Answer::Topics { source, output } => {
                    let topic = std::sync::Arc::clone(&lane.partition.topic);
                    if let Topic::There { partitions, .. } = source {
                        self.grown.push((std::sync::Arc::clone(&topic), partitions));
                    }
                    let of_topic = |lane: &&mut Lane| lane.partition.topic == topic;
                    for lane in self.lanes.iter_mut().filter(of_topic) {
                        let dir = self.context.state.partition_dir(&lane.partition);
                        compare(lane, source, output, dir)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Compares the topics of now with those the lane was taken with. The client goes on in a topic
/// that was made again as if nothing had happened: on a source it leaves out all that lies below
/// the old offset.
fn compare(lane: &mut Lane, source: Topic, output: Topic, dir: PathBuf) -> Result<(), Error> {
    let topic = lane.partition.topic.to_string();
    if source == Topic::Gone {
        return Err(Error::TopicMissing { role: "source", topic });
    }
    if output == Topic::Gone {
        return Err(Error::TopicMissing { role: "output", topic: lane.route.output_topic.clone() });
    }
    if is_other(lane.route.source_id, source) {
        let partition = lane.partition.clone();
        return Err(Error::Recreated { partition, which: "source", topic, dir });
    }
    if lane.is_running()
        && is_other(lane.route.output_id, output)
        && let Topic::There { id, .. } = output
    {
        // What was confirmed is gone with the old one. Taking the partition anew finds that out.
        lane.route.output_id = id;
        lane.reopen = true;
        lane.phase = Phase::Rewinding;
    }
    Ok(())
}

fn is_other(taken_with: Option<TopicId>, now: Topic) -> bool {
    matches!((taken_with, now), (Some(then), Topic::There { id: Some(now), .. }) if then != now)
}

/// Shows the core what somebody else wrote.
fn take_in(lane: &mut Lane, mut hole: Hole, found: Vec<Written>) -> Result<(), Error> {
    if lane.reopen {
        // The state takes no calls. What is durable lies below the hole, so catching up reads it.
        return Ok(());
    }
    let (Some(core), Some(seen)) = (&mut lane.core, &lane.seen) else { return Ok(()) };
    let partition = &lane.partition;
    if !found.is_empty() {
        let (from, to, records) = (hole.from.0, hole.to.0, found.len());
        tracing::warn!(%partition, from, to, records, "another instance wrote to the output");
    }
    for written in found {
        let repeat = core
            .late(written, &mut hole, &**seen)
            .map_err(|source| Error::PartitionState { partition: partition.clone(), source })?;
        if let Some(repeat) = repeat {
            report_repeat(partition, &lane.route.output_topic, repeat);
        }
    }
    Ok(())
}

fn answer(
    context: &Context,
    reader: &mut Option<OutputReader>,
    asked: Asked,
    over: &AtomicBool,
) -> Option<Answer> {
    let number = asked.partition.partition;
    match asked.question {
        // Asked again soon.
        Question::Topics => topics(context, &asked).ok(),
        Question::End { sent } => {
            let bounds = with_reader(context, reader, |r| r.bounds(&asked.topic, number));
            // Asked again soon.
            bounds.ok().map(|(_, end)| Answer::End { sent, end })
        }
        Question::Hole { hole, mut keys } => loop {
            let arrival = context.clock.now();
            let mut found = Vec::new();
            let read = with_reader(context, reader, |r| {
                found.clear();
                r.read(&asked.topic, number, hole.from, hole.to, over, IDLE_LIMIT, &mut |record| {
                    found.push(Written {
                        offset: record.offset(),
                        identity: keys.identify(record),
                        timestamp: record.timestamp(),
                        arrival,
                    });
                    true
                })
            });
            match read {
                Ok(()) => return Some(Answer::Hole { hole, found }),
                Err(error @ kafka::Error::OutputOutOfRange { .. }) => {
                    // It will never be readable again, and the lane waits for an answer.
                    let (partition, from, to) = (&asked.partition, hole.from.0, hole.to.0);
                    tracing::error!(%partition, from, to, %error, "a hole is gone unread");
                    return Some(Answer::Hole { hole, found: Vec::new() });
                }
                Err(error) => {
                    context.board.count_failure(Failure::CatchUp);
                    tracing::warn!(partition = %asked.partition, %error, "failed to read a hole");
                }
            }
            if over.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(Duration::from_secs(1));
        },
    }
}

/// Asks the brokers for the topics of a lane.
fn topics(context: &Context, asked: &Asked) -> Result<Answer, kafka::Error> {
    let config = &context.config;
    let source = Cluster::connect(config, REQUEST_TIMEOUT)?;
    let elsewhere = match config.sink.bootstrap_servers {
        Some(_) => Some(Cluster::connect_to_output(config, REQUEST_TIMEOUT)?),
        None => None,
    };
    let output = look_up(elsewhere.as_ref().unwrap_or(&source), &asked.topic)?;
    let source = look_up(&source, &asked.partition.topic)?;
    Ok(Answer::Topics { source, output })
}

fn look_up(cluster: &Cluster, topic: &str) -> Result<Topic, kafka::Error> {
    /// A broker that has just started may not know its topics yet.
    const ONCE_MORE_AFTER: Duration = Duration::from_secs(1);
    let mut found = cluster.topic(topic)?;
    if found.is_none() {
        std::thread::sleep(ONCE_MORE_AFTER);
        found = cluster.topic(topic)?;
    }
    let there = |facts: TopicFacts| Topic::There { id: facts.id, partitions: facts.partitions };
    Ok(found.map_or(Topic::Gone, there))
}

/// Uses the reader, making it first if there is none; after a failure it is made anew next time.
fn with_reader<T>(
    context: &Context,
    reader: &mut Option<OutputReader>,
    mut work: impl FnMut(&OutputReader) -> Result<T, kafka::Error>,
) -> Result<T, kafka::Error> {
    let made = match reader.take() {
        Some(made) => made,
        None => OutputReader::connect(&context.config, REQUEST_TIMEOUT)?,
    };
    let result = work(&made);
    if result.is_ok() {
        *reader = Some(made);
    }
    result
}
