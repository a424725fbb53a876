//! Whether a pattern of source topics takes in the names of its own outputs.

use std::collections::{BTreeSet, VecDeque};

use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, MatchKind, dfa::Automaton, dfa::dense};

/// Returns whether `topic` as a whole matches `pattern`, which has been compiled once before.
pub(super) fn matches_whole(pattern: &str, topic: &str) -> bool {
    regex::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(topic))
}

/// Returns whether the outputs of topics that match `pattern` may be named `name`.
pub(super) fn writes(pattern: &str, output: &str, name: &str) -> bool {
    match output.split_once("{topic}") {
        None => output == name,
        Some((before, after)) => {
            let source = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            source.is_some_and(|source| matches_whole(pattern, source))
        }
    }
}

/// Returns whether some topic that matches `pattern` has an output that matches it too.
///
/// Where the pattern is too large to decide, the answer is no, and the names that really exist
/// are compared at run time.
pub(super) fn reads_its_output(pattern: &str, output: &str) -> bool {
    match output.split_once("{topic}") {
        None => matches_whole(pattern, output),
        Some((before, after)) => Machine::new(pattern)
            .is_some_and(|machine| machine.meets_itself(before.as_bytes(), after.as_bytes())),
    }
}

/// The most pairs of states that are looked at.
const MAX_PAIRS: usize = 200_000;

/// The automaton of a pattern that has to match as a whole.
struct Machine(dense::DFA<Vec<u32>>);

impl Machine {
    fn new(pattern: &str) -> Option<Self> {
        const MAX_BYTES: usize = 4 << 20;
        // Topic names are ASCII, for which bytes will do.
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let limits = dense::Config::new()
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(MAX_BYTES))
            .determinize_size_limit(Some(MAX_BYTES));
        let built = dense::Builder::new()
            .syntax(syntax)
            .configure(limits)
            .build(&format!(r"\A(?:{pattern})\z"));
        built.ok().map(Self)
    }

    /// Follows all names `t` and `before + t` side by side, and looks for one where both `t` and
    /// `before + t + after` match.
    fn meets_itself(&self, before: &[u8], after: &[u8]) -> bool {
        let config = start::Config::new().anchored(Anchored::Yes);
        let Ok(start) = self.0.start_state(&config) else { return false };
        let first = (start, self.follow(start, before));
        let mut known = BTreeSet::from([first]);
        let mut waiting = VecDeque::from([first]);
        while let Some((source, output)) = waiting.pop_front() {
            if self.ends(source) && self.ends(self.follow(output, after)) {
                return true;
            }
            for byte in legal_bytes() {
                let next = (self.0.next_state(source, byte), self.0.next_state(output, byte));
                let dead = self.0.is_dead_state(next.0) || self.0.is_dead_state(next.1);
                if !dead && known.len() < MAX_PAIRS && known.insert(next) {
                    waiting.push_back(next);
                }
            }
        }
        false
    }

    fn follow(&self, state: StateID, bytes: &[u8]) -> StateID {
        bytes.iter().fold(state, |state, byte| self.0.next_state(state, *byte))
    }

    fn ends(&self, state: StateID) -> bool {
        self.0.is_match_state(self.0.next_eoi_state(state))
    }
}

fn legal_bytes() -> impl Iterator<Item = u8> {
    (b'a'..=b'z').chain(b'A'..=b'Z').chain(b'0'..=b'9').chain(*b"._-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_the_pattern_takes_in_is_found() {
        for (pattern, output) in [
            ("payments-.*", "{topic}.dedup"),
            (".*", "dedup.{topic}"),
            ("payments-.*", "payments-{topic}"),
            ("a(bc)*", "{topic}bc"),
            ("pay.*|ref.*", "refund-of-{topic}"),
            ("[a-z]+(-x){3}", "a{topic}"),
            ("out", "out"),
            ("a{2,}", "{topic}aaa"),
        ] {
            assert!(reads_its_output(pattern, output), "{pattern} into {output} was missed");
        }
    }

    #[test]
    fn an_output_outside_the_pattern_is_let_through() {
        for (pattern, output) in [
            ("payments-.*", "dedup.{topic}"),
            ("payments-[a-z]+", "{topic}.dedup"),
            ("a(bc)*", "{topic}b"),
            ("[^.]*", "{topic}.dedup"),
            ("payments|refunds", "{topic}-dedup"),
            ("out", "outer"),
            ("x{3}", "{topic}x"),
        ] {
            assert!(!reads_its_output(pattern, output), "{pattern} into {output} was refused");
        }
    }

    #[test]
    fn the_names_of_outputs_are_recognised() {
        assert!(writes("pay.*", "{topic}.dedup", "payments.dedup"));
        assert!(!writes("pay.*", "{topic}.dedup", "orders.dedup"));
        assert!(!writes("pay.*", "{topic}.dedup", "payments"));
    }
}
