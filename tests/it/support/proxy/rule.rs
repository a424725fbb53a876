//! What is done to which frames, and how a test follows it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::frame::{Api, Header};

/// Which requests a rule is about.
#[derive(Clone, Debug)]
pub(crate) struct Frames {
    api: Api,
    client: Option<String>,
    skip: usize,
    most: usize,
}

impl Frames {
    /// All requests of a kind.
    pub(crate) fn of(api: Api) -> Self {
        Self { api, client: None, skip: 0, most: usize::MAX }
    }

    /// Only those of the client that calls itself so.
    pub(crate) fn of_client(self, client: &str) -> Self {
        Self { client: Some(client.to_owned()), ..self }
    }

    /// Not the first `count` of them.
    pub(crate) fn after(self, count: usize) -> Self {
        Self { skip: count, ..self }
    }

    /// No more than `count` of them.
    pub(crate) fn at_most(self, count: usize) -> Self {
        Self { most: count, ..self }
    }

    fn include(&self, header: &Header) -> bool {
        self.api == header.api && self.client.as_ref().is_none_or(|name| *name == header.client)
    }
}

/// What is done to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The request waits at the proxy, and with it all behind it on its connection.
    Hold,
    /// The broker gets the request; its answer waits at the proxy.
    HoldAnswer,
    /// The broker gets the request; its answer comes so much after it at the earliest.
    DelayAnswer(Duration),
    /// The broker gets the request; its answer is thrown away.
    DropAnswer,
    /// The broker gets half of the request; then the connection is cut.
    CutInside,
    /// The broker gets the request; instead of handing on its answer the connection is cut.
    CutBeforeAnswer,
}

/// A rule in force. Clones are the same rule.
#[derive(Clone)]
pub(crate) struct Rule(Arc<Inner>);

struct Inner {
    frames: Frames,
    pub(super) act: Act,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that were chosen by kind and client, whether skipped or not.
    met: usize,
    /// Requests that the rule took.
    taken: usize,
    /// How many of those may go on.
    let_through: usize,
    answered: usize,
    lifted: bool,
}

/// A request that a rule took: which one it was, counted from 0.
#[derive(Clone)]
pub(super) struct Taken {
    pub(super) rule: Rule,
    number: usize,
}

impl Rule {
    pub(super) fn new(frames: Frames, act: Act) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Inner { frames, act, state, changed }))
    }

    pub(super) fn act(&self) -> Act {
        self.0.act
    }

    /// Takes a request if the rule is about it.
    pub(super) fn take(&self, header: &Header) -> Option<Taken> {
        let mut state = self.lock();
        if state.lifted || !self.0.frames.include(header) {
            return None;
        }
        state.met += 1;
        if state.met <= self.0.frames.skip || state.taken >= self.0.frames.most {
            return None;
        }
        let number = state.taken;
        state.taken += 1;
        self.0.changed.notify_all();
        Some(Taken { rule: self.clone(), number })
    }

    /// Returns how many requests the rule has taken.
    pub(crate) fn count(&self) -> usize {
        self.lock().taken
    }

    /// Waits until the rule has taken `count` requests.
    ///
    /// # Panics
    /// Where that does not happen in time.
    pub(crate) fn await_count(&self, count: usize, limit: Duration) {
        self.await_that("frames", count, limit, |state| state.taken);
    }

    /// Waits until the broker has answered `count` of the requests that the rule took, whether the
    /// client got to know or not.
    ///
    /// # Panics
    /// Where that does not happen in time.
    pub(crate) fn await_answered(&self, count: usize, limit: Duration) {
        self.await_that("answers", count, limit, |state| state.answered);
    }

    /// Lets the first `count` of what is or will be held go on.
    pub(crate) fn let_through(&self, count: usize) {
        self.lock().let_through = count;
        self.0.changed.notify_all();
    }

    /// Ends the rule: what is held goes on, in order, and nothing is taken any more. Returns how
    /// many requests it had taken.
    pub(crate) fn lift(&self) -> usize {
        let mut state = self.lock();
        state.lifted = true;
        self.0.changed.notify_all();
        state.taken
    }

    fn await_that(&self, what: &str, count: usize, limit: Duration, of: fn(&State) -> usize) {
        let waits = |state: &mut State| of(state) < count;
        let waited = self.0.changed.wait_timeout_while(self.lock(), limit, waits);
        let (state, time) = waited.expect("no holder panics");
        assert!(!time.timed_out(), "waited {limit:?} for {count} {what} of {self:?}: {state:?}");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no holder panics")
    }
}

impl Taken {
    /// Waits until the request, or its answer, may go on.
    pub(super) fn wait(&self) {
        let waits = |state: &mut State| !state.lifted && self.number >= state.let_through;
        let waited = self.rule.0.changed.wait_while(self.rule.lock(), waits);
        drop(waited.expect("no holder panics"));
    }

    pub(super) fn answered(&self) {
        self.rule.lock().answered += 1;
        self.rule.0.changed.notify_all();
    }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Rule").field(&self.0.act).field(&self.0.frames).finish()
    }
}
