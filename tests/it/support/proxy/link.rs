//! One connection of a client, and the one to the broker that was made for it.
//!
//! Three threads: one reads requests as they come, so that a client may die with requests held;
//! one sends them on; one brings answers back. The connection to the broker stays open until all
//! that was read is sent and answered, whatever became of the client.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::Shared;
use super::frame::{self, Api};
use super::rule::{Act, Taken};

/// How long the broker may take to answer the last requests of a client that is gone.
const LAST_ANSWERS: Duration = Duration::from_secs(20);

/// How many requests are read ahead of what is held: far more than any client has in flight.
const READ_AHEAD: usize = 1_024;

pub(super) struct Link {
    client: TcpStream,
    broker: TcpStream,
    /// What was sent to the broker and not answered.
    open: Mutex<VecDeque<Open>>,
    changed: Condvar,
}

/// A request that was read and is to be sent on.
struct Waiting {
    bytes: Vec<u8>,
    open: Open,
}

/// What is known of a request until it is answered.
struct Open {
    api: Api,
    correlation: i32,
    sent: Instant,
    taken: Option<Taken>,
}

impl Open {
    fn act(&self) -> Option<Act> {
        self.taken.as_ref().map(|taken| taken.rule.act())
    }
}

impl Link {
    /// Starts carrying frames between the two.
    pub(super) fn start(
        client: TcpStream,
        broker: TcpStream,
        shared: Arc<Shared>,
    ) -> std::io::Result<Arc<Self>> {
        for stream in [&client, &broker] {
            stream.set_nodelay(true)?;
        }
        let (from_client, to_broker) = (client.try_clone()?, broker.try_clone()?);
        let (to_client, from_broker) = (client.try_clone()?, broker.try_clone()?);
        let (open, changed) = (Mutex::default(), Condvar::new());
        let link = Arc::new(Self { client, broker, open, changed });
        let (put, waiting) = sync_channel(READ_AHEAD);
        let (sends, answers) = (Arc::clone(&link), Arc::clone(&link));
        let reads = Arc::clone(&shared);
        std::thread::spawn(move || read(from_client, &put, &reads));
        std::thread::spawn(move || sends.send(to_broker, &waiting));
        std::thread::spawn(move || answers.answer(from_broker, to_client, &shared));
        Ok(link)
    }

    /// Cuts both sides; what is held is lost.
    pub(super) fn cut(&self) {
        self.cut_client();
        shut(&self.broker);
    }

    /// Cuts the client off; what it has sent goes to the broker all the same.
    pub(super) fn cut_client(&self) {
        shut(&self.client);
    }

    fn send(&self, mut broker: TcpStream, waiting: &Receiver<Waiting>) {
        for Waiting { bytes, mut open } in waiting {
            match (open.act(), &open.taken) {
                (Some(Act::Hold), Some(taken)) => taken.wait(),
                (Some(Act::CutInside), _) => {
                    // The broker's view of a connection that breaks: whether this arrives or not,
                    // it is half a request.
                    drop(broker.write_all(&bytes[..bytes.len() / 2]));
                    return self.cut();
                }
                _ => {}
            }
            open.sent = Instant::now();
            self.lock().push_back(open);
            if broker.write_all(&bytes).is_err() {
                return self.cut();
            }
        }
        // The client is gone.
        let unanswered = |open: &mut VecDeque<Open>| !open.is_empty();
        let waited = self.changed.wait_timeout_while(self.lock(), LAST_ANSWERS, unanswered);
        drop(waited.expect("no holder panics"));
        self.cut();
    }

    fn answer(&self, mut broker: TcpStream, mut client: TcpStream, shared: &Shared) {
        while let Ok(Some(mut answer)) = frame::read(&mut broker) {
            let Some(open) = frame::correlation(&answer).and_then(|id| self.asked(id)) else {
                break;
            };
            if let Some(taken) = &open.taken {
                taken.answered();
            }
            if open.api.tells_addresses() {
                frame::redirect(&mut answer, shared.broker.port(), shared.port);
            }
            match (open.act(), &open.taken) {
                (Some(Act::DropAnswer), _) => continue,
                (Some(Act::CutBeforeAnswer), _) => break,
                (Some(Act::HoldAnswer), Some(taken)) => taken.wait(),
                (Some(Act::DelayAnswer(delay)), _) => {
                    std::thread::sleep(delay.saturating_sub(open.sent.elapsed()));
                }
                _ => {}
            }
            // A client that is gone needs no answer; what it sent still has to be.
            drop(client.write_all(&answer));
        }
        self.lock().clear();
        self.changed.notify_all();
        self.cut();
    }

    /// Takes the request that an answer belongs to; those before it want none.
    fn asked(&self, correlation: i32) -> Option<Open> {
        let mut open = self.lock();
        let place = open.iter().position(|open| open.correlation == correlation)?;
        let found = open.drain(..=place).next_back();
        self.changed.notify_all();
        found
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Open>> {
        self.open.lock().expect("no holder panics")
    }
}

fn read(mut client: TcpStream, put: &SyncSender<Waiting>, shared: &Shared) {
    // However a client's connection ends, what was read before is on its way.
    while let Ok(Some(bytes)) = frame::read(&mut client) {
        let Some(header) = frame::header(&bytes) else { return };
        let taken = shared.rules().iter().find_map(|rule| rule.take(&header));
        let (api, correlation) = (header.api, header.correlation);
        let open = Open { api, correlation, sent: Instant::now(), taken };
        if put.send(Waiting { bytes, open }).is_err() {
            return;
        }
    }
}

fn shut(stream: &TcpStream) {
    // It may be shut already.
    drop(stream.shutdown(Shutdown::Both));
}
