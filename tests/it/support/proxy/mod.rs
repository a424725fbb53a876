//! A proxy before a broker that knows Kafka's frames: it holds requests, also beyond the death of
//! who sent them, loses answers, and cuts connections, as networks do.
//!
//! Clients that connect to [`Proxy::address`] stay behind the proxy: it puts its own port into the
//! answers that tell where brokers are. All others talk to the broker itself.
//!
//! ```text
//! let proxy = Proxy::before(&broker.address());
//! let held = proxy.hold(Frames::of(Api::PRODUCE).of_client("first"));
//! …start something whose `client.id` is "first" on proxy.address()…
//! held.await_count(3, SOON);
//! …kill it…
//! held.lift();
//! held.await_answered(3, SOON);
//! ```

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

mod frame;
mod link;
mod rule;
mod tests;

pub(crate) use frame::Api;
pub(crate) use rule::{Frames, Rule};

use link::Link;
use rule::Act;

/// A running proxy. Dropping it cuts everything.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    accepts: Option<JoinHandle<()>>,
}

/// What the threads share.
struct Shared {
    broker: SocketAddr,
    port: u16,
    rules: Mutex<Vec<Rule>>,
    links: Mutex<Vec<Arc<Link>>>,
    accepted: AtomicUsize,
    refuses: AtomicBool,
    over: AtomicBool,
}

impl Proxy {
    /// Starts a proxy before the broker at `address`.
    pub(crate) fn before(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let shared = Arc::new(Shared {
            broker: address.parse().expect("a host and a port"),
            port: listener.local_addr().expect("it is bound").port(),
            rules: Mutex::default(),
            links: Mutex::default(),
            accepted: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let accepts = std::thread::spawn(move || accept(&listener, &accepting));
        Self { shared, accepts: Some(accepts) }
    }

    /// Returns what clients connect to.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.shared.port)
    }

    /// Holds these requests, and what comes behind them on their connections, until
    /// [`Rule::let_through`] or [`Rule::lift`].
    pub(crate) fn hold(&self, frames: Frames) -> Rule {
        self.add(frames, Act::Hold)
    }

    /// Lets the broker have these requests and holds its answers.
    pub(crate) fn hold_answers(&self, frames: Frames) -> Rule {
        self.add(frames, Act::HoldAnswer)
    }

    /// Lets answers to these requests come so much later than the request at the earliest.
    pub(crate) fn delay_answers(&self, frames: Frames, delay: Duration) -> Rule {
        self.add(frames, Act::DelayAnswer(delay))
    }

    /// Throws answers to these requests away.
    pub(crate) fn drop_answers(&self, frames: Frames) -> Rule {
        self.add(frames, Act::DropAnswer)
    }

    /// Cuts the connection when half of such a request is through.
    pub(crate) fn cut_inside(&self, frames: Frames) -> Rule {
        self.add(frames, Act::CutInside)
    }

    /// Cuts the connection when the broker answers such a request; the answer is lost.
    pub(crate) fn cut_before_answers(&self, frames: Frames) -> Rule {
        self.add(frames, Act::CutBeforeAnswer)
    }

    /// Cuts every connection; what is held is lost.
    pub(crate) fn cut_all(&self) {
        self.shared.links().drain(..).for_each(|link| link.cut());
    }

    /// Cuts all clients off; what they have sent goes to the broker all the same.
    pub(crate) fn cut_clients(&self) {
        self.shared.links().iter().for_each(|link| link.cut_client());
    }

    /// Says whether new connections are closed as soon as they are made.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.shared.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Returns how many connections clients have made.
    pub(crate) fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Adds a rule. Where several are about a request, the one added first takes it.
    fn add(&self, frames: Frames, act: Act) -> Rule {
        let rule = Rule::new(frames, act);
        self.shared.rules().push(rule.clone());
        rule
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address()));
        if let Some(accepts) = self.accepts.take() {
            drop(accepts.join());
        }
        self.cut_all();
        // Wakes whatever waits; its connections are cut.
        for rule in self.shared.rules().iter() {
            rule.lift();
        }
    }
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().expect("no holder panics")
    }

    fn links(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        self.links.lock().expect("no holder panics")
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        if shared.refuses.load(Ordering::SeqCst) {
            continue;
        }
        // A broker that is away looks the same through the proxy: the connection is closed.
        let Ok(broker) = TcpStream::connect(shared.broker) else { continue };
        if let Ok(link) = Link::start(client, broker, Arc::clone(shared)) {
            shared.links().push(link);
            shared.accepted.fetch_add(1, Ordering::SeqCst);
        }
    }
}
