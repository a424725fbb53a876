//! The report as a whole, what is accepted, and the page of all findings.

use super::super::report::{Counts, Report};
use super::super::{accept, accepted, reference, verdict};
use super::*;
use crate::error::render;

fn ailing() -> World {
    let mut world = World::clean();
    world.set_output("message.timestamp.type", "LogAppendTime");
    world.set_output("retention.ms", "3600000");
    world.facts.group = Err(silence());
    world
}

fn text(world: &World, accept_these: &[&str]) -> String {
    let (choice, mut findings) = judge(&world.config, &world.facts);
    let names: Vec<String> = accept_these.iter().map(|name| (*name).to_owned()).collect();
    accept(&mut findings, &accepted(&names).unwrap());
    Report::new(&world.config, &choice, &findings).text()
}

#[test]
fn the_report_has_its_golden_text() {
    golden("report", &text(&ailing(), &[]));
}

#[test]
fn the_json_report_is_one_object_with_the_promised_names() {
    let world = ailing();
    let (choice, findings) = judge(&world.config, &world.facts);
    let line = Report::new(&world.config, &choice, &findings).json().unwrap();
    assert_eq!(line.matches('\n').count(), 1);
    let all: serde_json::Value = serde_json::from_str(&line).unwrap();
    let names: Vec<_> = all.as_object().unwrap().keys().map(String::as_str).collect();
    let promised =
        ["counts", "findings", "group", "guarantee", "mode", "output", "readers", "source"];
    assert_eq!(names, promised);
    let first = &all["findings"][0];
    let names: Vec<_> = first.as_object().unwrap().keys().map(String::as_str).collect();
    let promised = ["accepted", "fix", "found", "name", "needed", "on", "setting", "severity"];
    assert_eq!(names, promised);
    assert_eq!((&first["name"], &first["severity"]), (&"timestamp-type".into(), &"breaks".into()));
    assert_eq!(all["counts"]["breaks"], 1);
    assert_eq!(all["mode"]["asked"], "auto");
}

#[test]
fn only_what_is_not_accepted_decides_the_exit_code() {
    let mut findings = ailing().findings();
    let counts = Counts::of(&findings);
    assert_eq!((counts.breaks, counts.weakens, counts.unknown, counts.accepted), (1, 1, 2, 0));
    assert_eq!(
        render(&verdict(counts).unwrap_err()).split(';').next().unwrap(),
        "error[E7006]: check found 1 that breaks the promise, 1 that weakens it, 2 that nobody told"
    );
    let names = ["timestamp-type", "retention-time", "group-rights", "group-members"];
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    accept(&mut findings, &accepted(&names).unwrap());
    let counts = Counts::of(&findings);
    assert_eq!((counts.accepted, counts.is_clean()), (4, true));
    verdict(counts).unwrap();
}

#[test]
fn what_was_found_is_one_line_with_its_golden_text() {
    let counts = Counts { breaks: 2, weakens: 1, unknown: 3, accepted: 0, ok: 20 };
    let error = crate::error::Error::from(verdict(counts).unwrap_err());
    let text = format!("{error}\nexit {}\n", error.exit_code());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/E7006.txt");
    compare(Path::new(path), &text);
}

#[test]
fn an_accepted_finding_is_still_shown() {
    let told = text(&ailing(), &["timestamp-type"]);
    assert!(told.contains("(breaks)") && told.contains("accepted 1"), "{told}");
    assert!(!text(&ailing(), &[]).contains("accepted"));
}

#[test]
fn a_finding_that_does_not_exist_is_refused_with_the_nearest_name() {
    let error = accepted(&["replicaton".to_owned()]).unwrap_err();
    assert_eq!(
        render(&error),
        "error[E1005]: no finding is called `replicaton`; fix: write `--accept replication`, or \
         another name of docs/check.md"
    );
}

#[test]
fn text_from_a_broker_cannot_break_a_row_or_drive_the_terminal() {
    let mut world = World::clean();
    world.set_output("cleanup.policy", "compact\n\u{1b}[2Jok\u{202e}");
    let told = text(&world, &[]);
    assert!(told.contains("compact [2Jok"), "{told}");
    assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'));
}

#[test]
fn names_of_findings_are_unique() {
    let mut names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Kind::ALL.len());
}

#[test]
fn the_page_lists_every_finding() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/check.md");
    compare(Path::new(path), &reference::reference());
}
