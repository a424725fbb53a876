//! What one turn measured, and what the rounds say together. Pure.

use serde::Serialize;

/// What one turn measured. What could not be measured is `None`, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Input records a second, start-up and leaving left out.
    pub records_per_s: Option<f64>,
    /// Keys and values of the input, in 10^6 bytes a second.
    pub mb_per_s: Option<f64>,
    /// Processor seconds, user and system, of the process per million input records.
    pub cpu_s_per_million: Option<f64>,
    /// End-to-end latency at the steady rate.
    pub latency_p50_ms: Option<f64>,
    /// The same, of 99 in 100 records.
    pub latency_p99_ms: Option<f64>,
    /// The same, of 999 in 1,000 records.
    pub latency_p999_ms: Option<f64>,
    /// The same, of the slowest record.
    pub latency_max_ms: Option<f64>,
    /// How long a checkpoint or commit took to become durable, on average.
    pub checkpoint_mean_ms: Option<f64>,
    /// An upper bound for 99 in 100 checkpoints.
    pub checkpoint_p99_ms: Option<f64>,
    /// From a SIGKILL to the first record on the output that was written after it.
    pub recovery_ms: Option<f64>,
    /// The most memory the process ever held.
    pub peak_rss_mib: Option<f64>,
    /// The state directory.
    pub state_mib: Option<f64>,
}

/// One of the figures: how it is called and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) of: fn(&Figures) -> Option<f64>,
}

const fn metric(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    of: fn(&Figures) -> Option<f64>,
) -> Metric {
    Metric { name, title, unit, of }
}

/// Every figure, in the order of reports.
pub(super) const METRICS: [Metric; 12] = [
    metric("records_per_s", "throughput", "records/s", |f| f.records_per_s),
    metric("mb_per_s", "throughput", "MB/s", |f| f.mb_per_s),
    metric("cpu_s_per_million", "process CPU", "s per million records", |f| f.cpu_s_per_million),
    metric("latency_p50_ms", "end-to-end latency, p50", "ms", |f| f.latency_p50_ms),
    metric("latency_p99_ms", "end-to-end latency, p99", "ms", |f| f.latency_p99_ms),
    metric("latency_p999_ms", "end-to-end latency, p99.9", "ms", |f| f.latency_p999_ms),
    metric("latency_max_ms", "end-to-end latency, max", "ms", |f| f.latency_max_ms),
    metric("checkpoint_mean_ms", "checkpoint, mean", "ms", |f| f.checkpoint_mean_ms),
    metric("checkpoint_p99_ms", "checkpoint, p99 at most", "ms", |f| f.checkpoint_p99_ms),
    metric("recovery_ms", "after kill -9, first new record", "ms", |f| f.recovery_ms),
    metric("peak_rss_mib", "peak memory", "MiB", |f| f.peak_rss_mib),
    metric("state_mib", "state on disk", "MiB", |f| f.state_mib),
];

/// What the rounds say of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// The middle round; the mean of the two middle ones where their number is even.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// The median over rounds of the ratio to the plain passthrough in the same round.
    pub ratio: Option<f64>,
    /// In how many rounds it was measured.
    pub rounds: usize,
}

/// Sums up the rounds of one row: each its own figure, and the passthrough's of the same round.
pub(super) fn summarise(rounds: &[(Option<f64>, Option<f64>)]) -> Option<Summary> {
    let own = sorted(rounds.iter().filter_map(|(own, _)| *own));
    // A base of 0 makes an infinite ratio, which is left out.
    let ratios = sorted(rounds.iter().filter_map(|(own, base)| Some((*own)? / (*base)?)));
    Some(Summary {
        median: median(&own)?,
        min: *own.first()?,
        max: *own.last()?,
        ratio: median(&ratios),
        rounds: own.len(),
    })
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}

/// Counts and sizes of a bench stay far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_round_and_the_ratio_is_taken_within_rounds() {
        // A slow machine in round two slows both, and must not show in the ratio.
        let rounds =
            [(Some(90.0), Some(100.0)), (Some(45.0), Some(50.0)), (Some(80.0), Some(100.0))];
        let summary = summarise(&rounds).expect("measured");
        assert_eq!((summary.median, summary.min, summary.max), (80.0, 45.0, 90.0));
        assert_eq!((summary.ratio, summary.rounds), (Some(0.9), 3));
    }

    #[test]
    fn an_even_number_of_rounds_has_the_mean_of_the_middle_two() {
        let summary = summarise(&[(Some(1.0), None), (Some(3.0), None)]).expect("measured");
        assert_eq!((summary.median, summary.ratio), (2.0, None));
    }

    #[test]
    fn what_no_round_measured_has_no_summary_and_a_base_of_zero_no_ratio() {
        assert_eq!(summarise(&[(None, Some(1.0))]), None);
        assert_eq!(summarise(&[]), None);
        assert_eq!(summarise(&[(Some(1.0), Some(0.0))]).and_then(|summary| summary.ratio), None);
    }

    #[test]
    fn every_metric_reads_a_figure_of_its_own() {
        let mut values: Vec<f64> = Vec::new();
        for (at, metric) in METRICS.iter().enumerate() {
            let mut figures = Figures::default();
            let fields: [&mut Option<f64>; 12] = [
                &mut figures.records_per_s,
                &mut figures.mb_per_s,
                &mut figures.cpu_s_per_million,
                &mut figures.latency_p50_ms,
                &mut figures.latency_p99_ms,
                &mut figures.latency_p999_ms,
                &mut figures.latency_max_ms,
                &mut figures.checkpoint_mean_ms,
                &mut figures.checkpoint_p99_ms,
                &mut figures.recovery_ms,
                &mut figures.peak_rss_mib,
                &mut figures.state_mib,
            ];
            for (place, field) in fields.into_iter().enumerate() {
                *field = (place == at).then_some(1.0);
            }
            values.extend((metric.of)(&figures));
        }
        assert_eq!(values.len(), METRICS.len());
    }
}
