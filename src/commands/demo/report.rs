//! What the demo prints at its end, and the configs it shows.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use super::audit::Ledger;
use super::broker::{GROUP, SOURCE};
use super::stage::Outcome;
use super::{Error, Options};

/// Returns the config of the demo's sink.
pub(super) fn config(brokers: &str, state: &Path, status: SocketAddr) -> String {
    format!(
        r#"[kafka]
bootstrap_servers = "{brokers}"

[kafka.client]
"fetch.wait.max.ms" = "10"      # the embedded broker answers an empty fetch only then

[source]
group = "{GROUP}"
topics = ["{SOURCE}"]
membership = "alone"            # one sink takes every partition; no group to join

[sink]
topic = "{{topic}}.dedup"

[dedup]
key = "record-key"
window = "24h"

[delivery]
mode = "dedup"                  # the embedded broker takes transactions, but keeps none apart

[checkpoint]
interval = "250ms"

[state]
dir = {state}

[status]
listen = "{status}"
"#,
        state = toml::Value::String(state.display().to_string()),
    )
}

/// The same on the user's own broker.
const OWN_CONFIG: &str = r#"[kafka]
bootstrap_servers = "localhost:9092"

[source]
group = "payments-dedup"
topics = ["payments"]

[sink]
topic = "{topic}.dedup"         # must exist, with as many partitions as the source

[dedup]
key = "record-key"
window = "24h"

[state]
dir = "./state"

[status]
listen = "127.0.0.1:9600"
"#;

/// Returns the ledger as one JSON object on one line.
pub(super) fn json(ledger: &Ledger) -> Result<String, Error> {
    let mut text = serde_json::to_string(ledger).map_err(|source| Error::Json { source })?;
    text.push('\n');
    Ok(text)
}

/// Returns the report for people.
pub(super) fn human(options: &Options, outcome: &Outcome) -> String {
    let mut text = table(&outcome.ledger);
    if !outcome.replayed_is_known {
        text.push_str("  (the sink did not tell how much it replayed)\n");
    }
    push(&mut text, &format!("\nseed {}, {:.1} s\n", options.seed, outcome.took.as_secs_f64()));
    if let Some(kept) = &outcome.kept {
        push(&mut text, &format!("kept in {}\n", kept.display()));
    }
    push(&mut text, "\nThe sink ran as `firstseen run --config firstseen.toml` with\n\n");
    push(&mut text, &indented(&outcome.config));
    push(&mut text, "\nTo do the same on your own broker, save this as firstseen.toml\n\n");
    push(&mut text, &indented(OWN_CONFIG));
    push(
        &mut text,
        "\nand run\n\n    firstseen run --config firstseen.toml --check-config\n    \
         firstseen run --config firstseen.toml\n",
    );
    text
}

fn push(text: &mut String, more: &str) {
    text.push_str(more);
}

fn table(ledger: &Ledger) -> String {
    let rows = [
        ("read", ledger.read, "records in the source topic"),
        ("forwarded", ledger.forwarded, "first occurrences on the output topic"),
        ("suppressed", ledger.suppressed, "duplicates that were kept off it"),
        (
            "replayed",
            ledger.replayed,
            "of the forwarded: met again after a kill, not written again",
        ),
        ("lost", ledger.lost, "first occurrences missing on the output"),
        ("repeated", ledger.repeated, "records on the output beyond the first of their key"),
        ("kills", ledger.kills, "times the sink was killed with SIGKILL"),
    ];
    let mut text = String::from("\n");
    for (name, count, meaning) in rows {
        // Writing to a string cannot fail.
        writeln!(text, "  {name:<11}{count:>9}   {meaning}").unwrap_or_default();
    }
    text
}

fn indented(block: &str) -> String {
    block
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, load_text};

    #[test]
    fn the_json_ledger_has_exactly_the_promised_names() {
        let text = json(&Ledger::default()).expect("serializes");
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&text).expect("one object");
        let mut names: Vec<_> = object.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["forwarded", "kills", "lost", "read", "repeated", "replayed", "suppressed"]
        );
        assert_eq!(text.matches('\n').count(), 1);
    }

    #[test]
    fn the_report_for_people_ends_with_a_config_and_the_commands_to_run_it() {
        let outcome = Outcome::for_test(Ledger { read: 60_000, kills: 5, ..Ledger::default() });
        let text = human(&Options::default(), &outcome);
        assert!(text.contains("read           60000   records in the source topic"), "{text}");
        assert!(text.contains("did not tell"), "{text}");
        assert!(text.contains("bootstrap_servers = \"localhost:9092\""), "{text}");
        let last = text.trim_end().lines().last();
        assert_eq!(last, Some("    firstseen run --config firstseen.toml"), "{text}");
    }

    #[test]
    fn both_configs_are_accepted_whatever_the_directory_is_called() {
        let odd = Path::new("/tmp/a \"quoted\" dir");
        let status = "127.0.0.1:9600".parse().expect("an address");
        for text in [config("127.0.0.1:1", odd, status), OWN_CONFIG.to_owned()] {
            let loaded = load_text(&text, "firstseen.toml", &Environment::default());
            loaded.unwrap_or_else(|faults| panic!("{faults:?} in\n{text}"));
        }
    }
}
