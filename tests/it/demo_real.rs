//! `firstseen demo` as a user runs it: the real sink, killed for real.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn demo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstseen"));
    command.arg("demo").args(args).env_remove("FIRSTSEEN_LOG");
    command
}

fn run(args: &[&str]) -> Output {
    demo(args).output().expect("starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn the_json_ledger_of_a_killed_sink_is_clean_and_alone_on_stdout() {
    let output = run(&["--json", "--records", "20000", "--kills", "4", "--seed", "7"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let ledger: serde_json::Value = serde_json::from_str(&stdout).expect("one object");
    let count = |name: &str| ledger[name].as_u64().unwrap_or_else(|| panic!("{name}: {stdout}"));
    assert_eq!(ledger.as_object().expect("an object").len(), 7, "{stdout}");
    assert_eq!((count("lost"), count("repeated"), count("kills")), (0, 0, 4), "{stdout}");
    assert_eq!(count("read"), 20_000);
    assert_eq!(count("forwarded") + count("suppressed"), 20_000);
    assert!(count("replayed") <= count("forwarded"), "{stdout}");
    assert!(count("replayed") > 0, "four kills and nothing to read again: {stdout}");
}

#[test]
fn the_demo_for_people_ends_with_the_ledger_and_a_config_for_their_broker() {
    let output = run(&["--records", "8000", "--kills", "1"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    for part in ["lost               0", "repeated           0", "membership = \"alone\""] {
        assert!(stdout.contains(part), "no `{part}` in:\n{stdout}");
    }
    let last = stdout.trim_end().lines().last();
    assert_eq!(last, Some("    firstseen run --config firstseen.toml"));
}

#[test]
fn an_interrupted_demo_takes_its_sink_and_its_directory_with_it() {
    let tmp = tempfile::tempdir().expect("a directory");
    let mut child = demo(&["--records", "60000"])
        .env("TMPDIR", tmp.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let killed = lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("kill -9"));
    assert!(killed, "the demo ended before its first kill");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("not 0");
    kill_process(pid, Signal::INT).expect("signalled");
    // The sink holds no end of this pipe; the demo alone ends it.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("ends").code(), Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with("error[E7002]")), "{rest:?}");
    let left: Vec<_> = std::fs::read_dir(tmp.path()).expect("readable").collect();
    assert!(left.is_empty(), "{left:?}");
}
