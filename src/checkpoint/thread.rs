//! The store thread: the only one that writes and syncs.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::engine::Draft;
use crate::seen::{self, Batch, Seen};
use crate::words::Timestamp;

/// How many checkpoints may wait. Each partition has at most one, and none may block the sender.
const QUEUE: usize = 65_536;

/// One checkpoint to make durable.
#[derive(Debug)]
pub struct Job {
    /// Who asked; comes back in [`Done`].
    pub ticket: u64,
    /// Whose state it is.
    pub seen: Arc<Seen>,
    /// What to write.
    pub draft: Draft,
    /// What may be forgotten once it is written.
    pub expire_before: Timestamp,
}

/// What came of a job.
#[derive(Debug)]
pub struct Done {
    /// As in the job.
    pub ticket: u64,
    /// The draft that was to be written.
    pub draft: Draft,
    /// How long it took.
    pub took: Duration,
    /// Whether it is durable. After an error the state takes no more writes.
    pub result: Result<seen::Stats, seen::Error>,
}

/// A handle to the thread; dropping it ends the thread after the jobs in its queue.
#[derive(Debug)]
pub struct StoreThread {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    handle: Option<JoinHandle<()>>,
}

impl StoreThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system's, when it cannot make a thread.
    pub fn start() -> std::io::Result<Self> {
        let (jobs, inbox) = bounded::<Job>(QUEUE);
        let (outbox, done) = bounded(QUEUE);
        let handle = std::thread::Builder::new().name("store".into()).spawn(move || {
            for job in inbox {
                // Nobody listens any more once the pipeline is gone; the work is done all the same.
                if outbox.send(perform(job)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs: Some(jobs), done, handle: Some(handle) })
    }

    /// Hands over a checkpoint. Returns it when the thread is gone.
    ///
    /// # Errors
    /// The job itself, boxed, when the thread has ended.
    pub fn submit(&self, job: Job) -> Result<(), Box<Job>> {
        match &self.jobs {
            Some(jobs) => jobs.send(job).map_err(|refused| Box::new(refused.0)),
            None => Err(Box::new(job)),
        }
    }

    /// Returns a finished job, if there is one.
    pub fn finished(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }

    /// Waits up to `limit` for a finished job.
    pub fn wait(&self, limit: Duration) -> Option<Done> {
        self.done.recv_timeout(limit).ok()
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(handle) = self.handle.take()
            && handle.join().is_err()
        {
            tracing::error!("the store thread panicked");
        }
    }
}

fn perform(job: Job) -> Done {
    let begun = Instant::now();
    let Job { ticket, seen, draft, expire_before } = job;
    let batch = Batch { entries: draft.entries.clone(), checkpoint: draft.checkpoint.clone() };
    let result = seen.write(batch).and_then(|_| {
        seen.expire(expire_before)?;
        Ok(seen.stats())
    });
    Done { ticket, draft, took: begun.elapsed(), result }
}
