//! The program as a user meets it: exit codes, and what goes to which stream.

use std::io::Read;
use std::process::{Command, Stdio};

use assert_cmd::assert::Assert;

fn firstseen(args: &[&str]) -> Assert {
    assert_cmd::Command::new(env!("CARGO_BIN_EXE_firstseen")).args(args).assert()
}

fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8")
}

#[test]
fn a_usage_error_exits_with_2_and_says_nothing_on_stdout() {
    for args in [&[][..], &["run"], &["check"], &["fly"], &["demo", "--kills", "many"]] {
        let assert = firstseen(args).code(2);
        assert_eq!(stdout(&assert), "", "{args:?}");
        assert!(!stderr(&assert).is_empty(), "{args:?}");
    }
}

#[test]
fn help_goes_to_stdout_and_lists_the_commands_and_the_exit_codes() {
    let help = stdout(&firstseen(&["--help"]).success());
    for word in ["run", "check", "state", "demo", "bench", "Exit codes", "FIRSTSEEN_LOG"] {
        assert!(help.contains(word), "no {word} in:\n{help}");
    }
}

#[test]
fn the_long_version_names_the_client_library_and_every_codec() {
    let version = stdout(&firstseen(&["--version"]).success());
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    assert!(version.contains("librdkafka 2."), "{version}");
    assert!(version.contains("codecs: gzip,snappy,lz4,zstd"), "{version}");
    let short = stdout(&firstseen(&["-V"]).success());
    assert_eq!(short.trim(), concat!("firstseen ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_firstseen"))
        .arg("--help")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    let mut complaints = String::new();
    let mut stderr = child.stderr.take().expect("piped");
    stderr.read_to_string(&mut complaints).expect("UTF-8");
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), Some(0), "{complaints}");
    assert_eq!(complaints, "");
}

#[test]
fn a_log_filter_that_cannot_be_read_is_a_config_error() {
    let assert = assert_cmd::Command::new(env!("CARGO_BIN_EXE_firstseen"))
        .args(["run", "--config", "absent.toml"])
        .env("FIRSTSEEN_LOG", "firstseen=loud")
        .assert()
        .code(2);
    let line = stderr(&assert);
    assert!(line.starts_with("error[E1009]: "), "{line}");
    assert!(line.contains("firstseen=loud") && line.contains("; fix: "), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}

fn run_with(config: &str, more: &[&str]) -> Assert {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("firstseen.toml");
    std::fs::write(&path, config).expect("written");
    let path = path.to_str().expect("UTF-8").to_owned();
    firstseen(&[&["run", "--config", &path], more].concat())
}

#[test]
fn a_checked_config_is_printed_whole_and_its_secrets_are_not() {
    let config = r#"
        [kafka]
        bootstrap_servers = "localhost:9093"
        [kafka.client]
        "security.protocol" = "sasl_ssl"
        "sasl.mechanism" = "PLAIN"
        "sasl.username" = "someone"
        "sasl.password" = "hunter2"
        [source]
        group = "g"
        topics = ["t"]
        [sink]
        topic = "{topic}.dedup"
    "#;
    let assert = run_with(config, &["--check-config"]).success();
    let printed = stdout(&assert);
    assert!(printed.contains("window = ") && printed.contains("sasl.password"), "{printed}");
    assert!(!(printed + &stderr(&assert)).contains("hunter2"));
}

#[test]
fn every_fault_of_a_config_is_a_line_of_its_own_and_the_exit_code_is_2() {
    let config = r#"
        [kafka]
        bootstrap_servers = "localhost:9092"
        [source]
        grup = "g"
        topics = ["t"]
        [sink]
        topic = "{topic}.dedup"
        delivery_timeout = 30
    "#;
    let lines = stderr(&run_with(config, &[]).code(2));
    for code in ["error[E1003]: ", "error[E1004]: ", "error[E1006]: "] {
        assert!(lines.lines().any(|line| line.starts_with(code)), "no {code} in:\n{lines}");
    }
    assert!(lines.lines().all(|line| line.contains("; fix: ")), "{lines}");
}

#[test]
fn a_log_reader_that_went_away_does_not_take_the_program_with_it() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_firstseen"))
        .args(["run", "--config", "config/minimal.toml", "--check-config"])
        .env("FIRSTSEEN__STATE__DIR", "/tmp/never-made")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // The state directory draws a warning, so there is something to log.
    drop(child.stderr.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stdout.is_empty());
}
