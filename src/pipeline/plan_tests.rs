//! What is decided when a partition is taken, case by case.

use super::*;

fn checkpoint(resume: i64, output: Option<i64>) -> Checkpoint {
    Checkpoint {
        resume: ResumeOffset(resume),
        output: output.map(OutputPosition),
        high_mark: Timestamp(77),
        counts: Counts { read: 5, ..Counts::default() },
        clean: false,
        incarnation: 1,
        written_at: Timestamp(0),
        source_topic_id: Some(TopicId([1; 16])),
        output_topic_id: Some(TopicId([2; 16])),
    }
}

fn committed(offset: i64, output: Option<i64>) -> Option<Committed> {
    let note = CommitNote {
        incarnation: 2,
        output: output.map(OutputPosition),
        clean: false,
        written_at: Timestamp(0),
        transactional: false,
    };
    Some(Committed { offset: ResumeOffset(offset), note: Some(note) })
}

fn facts(local: Local) -> Facts {
    Facts {
        local,
        committed: None,
        source: Bounds { low: 0, high: 1000 },
        output: Bounds { low: 0, high: 900 },
        source_id: Some(TopicId([1; 16])),
        output_id: Some(TopicId([2; 16])),
        on_missing_state: OnMissingState::Rebuild,
        start: StartAt::Earliest,
        clock: WindowClock::Event,
    }
}

fn found(resume: i64, output: i64) -> Facts {
    facts(Local::Found(checkpoint(resume, Some(output))))
}

#[test]
fn a_checkpoint_is_resumed_and_the_output_read_from_its_position() {
    let plan = decide(&found(500, 400)).expect("a plan");
    assert_eq!((plan.resume, plan.recover), (ResumeOffset(500), Some(OutputPosition(400))));
    assert_eq!((plan.load, plan.warning), (Load::Nothing, None));
    assert_eq!((plan.counts.read, plan.high_mark), (5, Timestamp(77)));
}

#[test]
fn a_group_offset_below_the_checkpoint_is_only_advice() {
    let plan = decide(&Facts { committed: committed(300, Some(200)), ..found(500, 400) });
    assert_eq!(plan.expect("a plan").resume, ResumeOffset(500));
}

#[test]
fn state_that_is_older_than_our_groups_commit_is_brought_forward_from_the_output() {
    let plan = decide(&Facts { committed: committed(700, Some(600)), ..found(500, 400) });
    let plan = plan.expect("a plan");
    assert_eq!(plan.resume, ResumeOffset(700));
    assert_eq!(plan.load, Load::From(OutputPosition(400)));
    assert_eq!(plan.recover, Some(OutputPosition(600)));
}

#[test]
fn a_group_offset_moved_ahead_by_others_does_not_skip_records() {
    let other = Some(Committed { offset: ResumeOffset(700), note: None });
    let plan = decide(&Facts { committed: other, ..found(500, 400) }).expect("a plan");
    assert_eq!((plan.resume, plan.warning), (ResumeOffset(500), Some(Warning::GroupAhead)));
}

#[test]
fn a_source_made_again_is_never_resumed() {
    let facts = Facts { source_id: Some(TopicId([9; 16])), ..found(500, 400) };
    assert_eq!(decide(&facts), Err(Refusal::SourceRecreated));
}

#[test]
fn an_output_made_again_sets_the_state_aside_or_stops() {
    let facts = Facts { output_id: Some(TopicId([9; 16])), ..found(500, 0) };
    let plan = decide(&facts).expect("a plan");
    assert!(plan.set_aside);
    assert_eq!((plan.load, plan.resume), (Load::Window, ResumeOffset(500)));
    let stop = Facts { on_missing_state: OnMissingState::Stop, ..facts };
    assert_eq!(decide(&stop), Err(Refusal::OutputRecreated));
}

#[test]
fn an_output_shorter_than_what_was_confirmed_is_noticed() {
    let plan = decide(&found(500, 901)).expect("a plan");
    assert_eq!((plan.set_aside, plan.warning), (true, Some(Warning::OutputTruncated)));
    let stop = Facts { on_missing_state: OnMissingState::Stop, ..found(500, 901) };
    let position = OutputPosition(901);
    assert_eq!(decide(&stop), Err(Refusal::OutputTruncated { position }));
}

#[test]
fn an_output_trimmed_past_the_position_is_read_from_where_it_starts() {
    let output = Bounds { low: 450, high: 900 };
    let plan = decide(&Facts { output, ..found(500, 400) }).expect("a plan");
    assert_eq!(plan.recover, Some(OutputPosition(450)));
    assert_eq!(plan.warning, Some(Warning::OutputTrimmed));
}

#[test]
fn a_resume_offset_outside_the_source_is_refused_on_both_sides() {
    let trimmed = Facts { source: Bounds { low: 501, high: 1000 }, ..found(500, 400) };
    let resume = ResumeOffset(500);
    assert_eq!(decide(&trimmed), Err(Refusal::OutOfRange { resume }));
    let short = Facts { source: Bounds { low: 0, high: 499 }, ..found(500, 400) };
    assert_eq!(decide(&short), Err(Refusal::OutOfRange { resume }));
}

#[test]
fn a_first_start_takes_all_that_is_on_the_output_for_replays() {
    let plan = decide(&facts(Local::Nothing)).expect("a plan");
    assert_eq!((plan.resume, plan.load), (ResumeOffset(0), Load::Nothing));
    assert_eq!((plan.recover, plan.warning), (Some(OutputPosition(0)), None));
}

#[test]
fn a_first_start_with_an_output_too_long_for_memory_loads_it() {
    let output = Bounds { low: 0, high: REPLAYS_IN_MEMORY + 1 };
    let plan = decide(&Facts { output, ..facts(Local::Nothing) }).expect("a plan");
    assert_eq!((plan.load, plan.recover), (Load::Everything, None));
}

#[test]
fn lost_state_is_rebuilt_and_replays_are_told_by_the_note_beside_the_commit() {
    for local in [Local::Nothing, Local::Damaged] {
        let facts = Facts { committed: committed(700, Some(600)), ..facts(local) };
        let plan = decide(&facts).expect("a plan");
        assert_eq!((plan.resume, plan.load), (ResumeOffset(700), Load::Window));
        assert_eq!(plan.recover, Some(OutputPosition(600)));
        assert_eq!(plan.warning, Some(Warning::Rebuilding));
    }
}

#[test]
fn lost_state_stops_where_the_config_says_so() {
    let base = Facts {
        committed: committed(700, Some(600)),
        on_missing_state: OnMissingState::Stop,
        ..facts(Local::Nothing)
    };
    assert_eq!(decide(&base), Err(Refusal::Missing));
    let damaged = Facts { local: Local::Damaged, ..base };
    assert_eq!(decide(&damaged), Err(Refusal::Damaged));
}

#[test]
fn a_first_start_is_not_a_lost_state() {
    let base = Facts { on_missing_state: OnMissingState::Stop, ..facts(Local::Nothing) };
    assert!(decide(&base).is_ok());
    let stop = Facts { start: StartAt::Stop, ..base };
    assert_eq!(decide(&stop), Err(Refusal::NoStart));
}

#[test]
fn starting_empty_is_loud_and_still_meets_its_replays() {
    let base = Facts {
        committed: committed(700, Some(600)),
        on_missing_state: OnMissingState::Empty,
        ..facts(Local::Nothing)
    };
    let plan = decide(&base).expect("a plan");
    assert_eq!((plan.load, plan.warning), (Load::Nothing, Some(Warning::StartingEmpty)));
    assert_eq!(plan.recover, Some(OutputPosition(600)));
}

#[test]
fn a_rebuild_that_was_cut_short_is_done_again_and_still_meets_its_replays() {
    let cut = Local::Found(checkpoint(700, None));
    let plan = decide(&Facts { committed: committed(700, Some(600)), ..facts(cut.clone()) });
    let plan = plan.expect("a plan");
    assert_eq!((plan.resume, plan.load), (ResumeOffset(700), Load::Window));
    assert_eq!(plan.recover, Some(OutputPosition(600)));
    let alone = decide(&facts(cut)).expect("a plan");
    assert_eq!((alone.load, alone.recover), (Load::Everything, None));
}

#[test]
fn what_is_read_back_whole_does_not_make_the_source_s_oldest_records_too_old() {
    let output = Bounds { low: 0, high: REPLAYS_IN_MEMORY + 1 };
    let plan = decide(&Facts { output, ..facts(Local::Nothing) }).expect("a plan");
    assert_eq!((plan.load, plan.resume), (Load::Everything, ResumeOffset(0)));
    assert_eq!(plan.high_mark_after(Timestamp(1_000)), Timestamp::MIN);
    let known = Facts { committed: committed(300, Some(200)), ..facts(Local::Nothing) };
    let plan = decide(&known).expect("a plan");
    assert_eq!(
        (plan.load, plan.high_mark_after(Timestamp(1_000))),
        (Load::Window, Timestamp(1_000))
    );
}

#[test]
fn a_window_of_arrival_times_is_not_looked_for_by_the_times_that_records_carry() {
    let known = Facts { committed: committed(300, Some(200)), ..facts(Local::Nothing) };
    let plan = decide(&Facts { clock: WindowClock::Arrival, ..known }).expect("a plan");
    assert_eq!((plan.load, plan.recover), (Load::Everything, Some(OutputPosition(200))));
}

#[test]
fn a_damaged_state_without_a_committed_offset_never_starts_at_the_end() {
    let base = Facts { start: StartAt::Latest, ..facts(Local::Damaged) };
    assert_eq!(decide(&base), Err(Refusal::Damaged));
    assert!(decide(&Facts { local: Local::Nothing, ..base }).is_ok());
}

#[test]
fn an_offset_that_somebody_moved_back_is_told_and_not_followed() {
    let moved = Some(Committed { offset: ResumeOffset(300), note: None });
    let plan = decide(&Facts { committed: moved, ..found(500, 400) }).expect("a plan");
    assert_eq!((plan.resume, plan.warning), (ResumeOffset(500), Some(Warning::GroupBehind)));
    let ours = decide(&Facts { committed: committed(300, Some(200)), ..found(500, 400) });
    assert_eq!(ours.expect("a plan").warning, None);
}
