//! From samples of an output's end to a rate. Pure.

use std::time::Duration;

/// How far everything was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Since the turn began.
    pub(super) at: Duration,
    /// The output's end, over all partitions.
    pub(super) end: i64,
    /// What the process had used of the processors.
    pub(super) cpu: Duration,
}

/// What happened between the first and the last growth of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Records on the output.
    pub(super) records: i64,
    /// In this time.
    pub(super) took: Duration,
    /// For this much of the processors.
    pub(super) cpu: Duration,
}

/// Returns the pace between the sample that first saw the output grow and the one that first saw
/// its last growth, so that neither start-up nor leaving counts; `None` where that is one sample.
pub(super) fn pace(samples: &[Sample]) -> Option<Pace> {
    let start = samples.first()?.end;
    let last_end = samples.iter().map(|sample| sample.end).max()?;
    let first = samples.iter().find(|sample| sample.end > start)?;
    let last = samples.iter().find(|sample| sample.end == last_end)?;
    let took = last.at.checked_sub(first.at).filter(|took| !took.is_zero())?;
    Some(Pace { records: last.end - first.end, took, cpu: last.cpu.saturating_sub(first.cpu) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(points: &[(u64, i64, u64)]) -> Vec<Sample> {
        let ms = Duration::from_millis;
        points
            .iter()
            .map(|(at, end, cpu)| Sample { at: ms(*at), end: *end, cpu: ms(*cpu) })
            .collect()
    }

    #[test]
    fn neither_start_up_nor_leaving_counts() {
        let seen = samples(&[
            (0, 0, 0),
            (900, 0, 700),
            (1_000, 50, 750),
            (2_000, 1_050, 1_750),
            (3_000, 1_050, 2_000),
        ]);
        let (took, cpu) = (Duration::from_secs(1), Duration::from_secs(1));
        assert_eq!(pace(&seen), Some(Pace { records: 1_000, took, cpu }));
    }

    #[test]
    fn an_output_that_came_in_one_piece_has_no_pace() {
        assert_eq!(pace(&samples(&[(0, 0, 0), (10, 500, 5), (20, 500, 9)])), None);
        assert_eq!(pace(&samples(&[(0, 0, 0), (10, 0, 5)])), None);
        assert_eq!(pace(&[]), None);
    }
}
