//! Configs as users meet them: a file goes in; a config or lines for the terminal come out.
//!
//! `FIRSTSEEN_BLESS=1` rewrites every committed file that is compared here. Paths are relative to
//! the package, so that no golden text names a machine.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod secrets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use firstseen::config::{self, Config, Environment, Faults};
use firstseen::error::Error;
use firstseen::words::Code;

const FIXTURES: &str = "tests/fixtures/config";
pub(crate) const GOLDEN: &str = "tests/golden";

/// Compares `text` with the committed file, or commits it.
pub(crate) fn compare(path: &Path, text: &str) {
    if std::env::var_os("FIRSTSEEN_BLESS").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let committed = fs::read_to_string(path)
        .unwrap_or_else(|e| panic!("{}: {e}; FIRSTSEEN_BLESS=1 writes it", path.display()));
    assert_eq!(committed, text, "{} differs; FIRSTSEEN_BLESS=1 rewrites it", path.display());
}

/// The files of a directory with this extension, sorted.
pub(crate) fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    paths.sort();
    paths
}

pub(crate) fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Loads a fixture with the variables that its lines `# env NAME=VALUE` set.
fn load_fixture(path: &Path) -> Result<Config, Faults> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.strip_prefix("# env ")?.split_once('='));
    config::load(path, &Environment::from_pairs(lines))
}

fn load_text(text: &str) -> Result<Config, Faults> {
    load_with(text, &[])
}

fn load_with(text: &str, env: &[(&str, &str)]) -> Result<Config, Faults> {
    config::load_text(text, "test.toml", &Environment::from_pairs(env.iter().copied()))
}

fn accepted(text: &str) -> Config {
    load_text(text).unwrap_or_else(|faults| panic!("{}", Error::from(faults)))
}

fn refused(text: &str) -> Error {
    match load_text(text) {
        Ok(config) => panic!("accepted as {config:?}"),
        Err(faults) => faults.into(),
    }
}

const BASE: &str = "\
[kafka]
bootstrap_servers = \"localhost:9092\"
[source]
group = \"g\"
topics = [\"payments\"]
";

#[test]
fn every_broken_config_is_refused_with_its_golden_text() {
    let mut fixtures = files(FIXTURES, "toml");
    fixtures.push(Path::new(FIXTURES).join("E1001-no-such-file.toml"));
    for fixture in fixtures {
        let name = stem(&fixture);
        let Err(faults) = load_fixture(&fixture) else { panic!("{name} was accepted") };
        let error = Error::from(faults);
        let lines: Vec<_> = error.lines().collect();
        if let Some((code, _)) = name.split_once('-').filter(|(code, _)| code.starts_with('E')) {
            for line in &lines {
                assert!(line.starts_with(&format!("error[{code}]: ")), "{name}: {line}");
            }
        }
        let text = format!("{}\nexit {}\n", lines.join("\n"), error.exit_code());
        assert!(!text.contains("canary"), "{name} shows a secret: {text}");
        compare(&Path::new(GOLDEN).join(name).with_extension("txt"), &text);
    }
}

#[test]
fn a_config_with_many_faults_lists_each_of_them_once() {
    let Err(faults) = load_fixture(Path::new("tests/fixtures/config/many-faults.toml")) else {
        panic!("accepted")
    };
    let keys: Vec<_> = faults.iter().map(config::Fault::key).collect();
    let unique: BTreeSet<_> = keys.iter().collect();
    assert_eq!(keys.len(), unique.len(), "{keys:?}");
    for key in ["kafka.brokers", "source.group", "topics.payments.key", "status.listen"] {
        assert!(keys.contains(&key), "{key} is not among {keys:?}");
    }
}

#[test]
fn the_example_file_is_the_table_and_its_values_are_the_defaults() {
    compare(Path::new("config/firstseen.toml"), &config::example());
    let example = config::load(Path::new("config/firstseen.toml"), &Environment::default());
    let minimal = config::load(Path::new("config/minimal.toml"), &Environment::default());
    let (Ok(example), Ok(minimal)) = (example, minimal) else { panic!("an example is refused") };
    assert_eq!(config::print(&example), config::print(&minimal));
    assert_eq!(format!("{example:?}"), format!("{minimal:?}"));
}

#[test]
fn every_example_that_is_commented_out_can_be_switched_on() {
    let on = |line: &str| match line.strip_prefix("# ") {
        Some(code) if code.contains(" = ") || code.starts_with('[') => code.to_owned(),
        _ => line.to_owned(),
    };
    let text: Vec<_> = config::example().lines().map(on).collect();
    let text = text
        .join("\n")
        .replace("on_undeliverable = \"stop\"", "on_undeliverable = \"dead-letter\"");
    let config = load_with(&text, &[("KAFKA_PASSWORD", "pw")])
        .unwrap_or_else(|faults| panic!("{}", Error::from(faults)));
    assert_eq!(config.source.instance_id.as_deref(), Some("sink-1"));
    assert_eq!(config.rule("payments").window.as_ms(), 72 * 3_600_000);
    assert_eq!(config.rule("other").window.as_ms(), 24 * 3_600_000);
}

#[test]
fn every_setting_of_the_minimal_file_is_required() {
    let text = fs::read_to_string("config/minimal.toml").unwrap();
    for line in text.lines().filter(|line| line.contains(" = ")) {
        let error = refused(&text.replace(line, ""));
        assert_eq!(error.code(), Code::ConfigMissing, "without {line}: {error}");
    }
}

#[test]
fn the_pages_of_reference_are_made_from_the_tables() {
    compare(Path::new("docs/config.md"), &config::reference());
    compare(Path::new("docs/errors.md"), &firstseen::error::reference());
}

#[test]
fn a_printed_config_reads_back_as_the_same_config() {
    let text = "\
[kafka]
bootstrap_servers = \"a:1, [::1]:2\"
allow_insecure = true
[kafka.client]
security.protocol = \"ssl\"
\"linger.ms\" = 5
[source]
group = \"a$$b\\\"\\\\\\t\"
topics = \"^payments-[a-z]+\"
membership = \"alone\"
start = \"stop\"
session_timeout = \"30m\"
[sink]
topic = \"{topic}.dedup\"
on_undeliverable = \"dead-letter\"
dead_letter_topic = \"dead\"
in_flight_max = \"2MB\"
bootstrap_servers = \"b:2\"
[dedup]
key = [\"header:a b\", \"json:/a~1b/0\", \"value\"]
hash = \"blake3-128\"
window = \"31d 1h 1ms\"
clock = \"arrival\"
refresh = true
on_missing_key = \"stop\"
drop = [\"empty-value\", \"null-value\"]
[topics.payments-a]
window = \"1w\"
[topics.\"payments-b\"]
key = \"value\"
[delivery]
mode = \"dedup\"
[state]
on_missing_state = \"empty\"
min_free = \"0B\"
[status]
listen = \"off\"
";
    let first = accepted(text);
    let printed = config::print(&first);
    let second = accepted(&printed);
    assert_eq!(printed, config::print(&second));
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
}

#[test]
fn a_topic_takes_what_its_section_leaves_out_from_dedup() {
    let config = accepted(&format!(
        "{BASE}[dedup]\nwindow = \"2h\"\nrefresh = true\n[topics.payments]\nwindow = \"3h\"\n"
    ));
    assert_eq!(config.rule("payments").window.as_ms(), 3 * 3_600_000);
    assert!(config.rule("payments").refresh);
    assert_eq!(config.rule("other").window.as_ms(), 2 * 3_600_000);
}

#[test]
fn variables_override_the_file_and_need_no_line_in_it() {
    let text = format!("{BASE}[state]\ndir = \"./file\"\n");
    let env = [
        ("FIRSTSEEN__STATE__DIR", "/var/$lib"),
        ("FIRSTSEEN__SOURCE__TOPICS", "payments, refunds"),
        ("FIRSTSEEN__CHECKPOINT__MAX_RECORDS", "7"),
        ("FIRSTSEEN__DEDUP__REFRESH", "true"),
        ("FIRSTSEEN__KAFKA__CLIENT__SECURITY_PROTOCOL", "ssl"),
        ("FIRSTSEEN_LOG", "debug"),
    ];
    let config = load_with(&text, &env).unwrap_or_else(|faults| panic!("{}", Error::from(faults)));
    assert_eq!(config.state.dir, Path::new("/var/$lib"));
    assert_eq!(config.checkpoint.max_records, 7);
    assert!(config.dedup.refresh);
    assert_eq!(config.kafka.client.get("security.protocol").map(String::as_str), Some("ssl"));
    assert!(
        matches!(config.source.topics, config::TopicSelection::List(names) if names.len() == 2)
    );
}

#[test]
fn client_properties_take_strings_numbers_flags_and_unquoted_dots() {
    let config = accepted(&format!(
        "{BASE}[kafka.client]\nlinger.ms = 5\n\"check.crcs\" = true\nclient.id = \"a\"\n"
    ));
    let client: Vec<_> =
        config.kafka.client.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(client, [("check.crcs", "true"), ("client.id", "a"), ("linger.ms", "5")]);
}

#[test]
fn credentials_of_one_cluster_stay_away_from_another() {
    let login =
        "[kafka.client]\n\"ssl.key.password\" = \"one\"\n[sink.client]\nclient.id = \"a\"\n";
    let same = accepted(&format!("{BASE}{login}"));
    assert!(same.sink_client().contains_key("ssl.key.password"));
    let other = accepted(&format!("{BASE}{login}[sink]\nbootstrap_servers = \"other:1\"\n"));
    assert_eq!(other.sink_client().keys().collect::<Vec<_>>(), ["client.id"]);
    assert_eq!(other.sink_bootstrap_servers(), "other:1");
}

#[test]
fn another_cluster_may_have_the_topic_of_the_same_name() {
    accepted(&format!("{BASE}[sink]\ntopic = \"{{topic}}\"\nbootstrap_servers = \"other:9092\"\n"));
}

#[test]
fn a_password_in_the_clear_is_let_through_when_asked_for() {
    let login = "[kafka.client]\n\"security.protocol\" = \"sasl_plaintext\"\n\
                 \"sasl.mechanism\" = \"PLAIN\"\n\"sasl.password\" = \"x\"\n";
    let allowed = BASE.replace("[source]", "allow_insecure = true\n[source]");
    let config = accepted(&format!("{allowed}{login}"));
    assert!(config::warnings(&config).iter().any(|text| text.contains("allow_insecure")));
    assert_eq!(refused(&format!("{BASE}{login}")).code(), Code::ConfigInsecure);
}

#[test]
fn a_password_that_scram_hashes_may_cross_plaintext() {
    accepted(&format!(
        "{BASE}[kafka.client]\n\"security.protocol\" = \"sasl_plaintext\"\n\
         \"sasl.mechanism\" = \"SCRAM-SHA-512\"\n\"sasl.password\" = \"x\"\n"
    ));
}

#[test]
fn the_lease_margin_is_only_asked_for_where_there_is_a_group() {
    let timeouts = "session_timeout = \"10s\"\n[sink]\ndelivery_timeout = \"30s\"\n";
    assert_eq!(refused(&format!("{BASE}{timeouts}")).code(), Code::ConfigConflict);
    accepted(&format!("{BASE}membership = \"alone\"\n{timeouts}"));
    let margin = "session_timeout = \"32001ms\"\n[sink]\ndelivery_timeout = \"30s\"\n";
    accepted(&format!("{BASE}{margin}"));
    assert_eq!(
        refused(&format!("{BASE}{}", margin.replace("32001ms", "32s"))).code(),
        Code::ConfigConflict
    );
}

#[test]
fn no_text_however_odd_makes_the_reader_panic() {
    let values = [
        "1",
        "-1",
        "9223372036854775807",
        "99999999999999999999",
        "1.5",
        "inf",
        "true",
        "''",
        "'\u{0}'",
        "' '",
        "'\u{202e}'",
        "[]",
        "[[]]",
        "{}",
        "1979-05-27",
        "'$'",
        "'${}'",
        "'99999999999999999999d'",
        "'99999999999999999999TiB'",
        "'^('",
        "'{topic}{topic}'",
        "'.'",
        "'..'",
        "'json:/~2'",
        "'header:'",
        "'^.*'",
    ];
    let example = config::example();
    for line in example.lines().filter(|line| line.contains(" = ")) {
        let Some((name, _)) = line.trim_start_matches("# ").split_once(" = ") else { continue };
        for value in values {
            let text = example.replacen(line, &format!("{name} = {value}"), 1);
            if let Err(faults) = load_text(&text) {
                let error = Error::from(faults);
                for line in error.lines() {
                    assert!(!line.contains(['\n', '\u{202e}', '\u{0}']), "{line:?}");
                    assert!(line.contains("; fix: "), "{line}");
                }
            }
        }
    }
}
