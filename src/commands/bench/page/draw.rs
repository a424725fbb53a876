//! Scales and ticks: where a figure lies on a picture. Pure.

/// A linear or logarithmic way from figures to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    length: f64,
    logarithmic: bool,
}

impl Scale {
    /// From 0 to `most` over `length` pixels, beginning at `start`.
    pub(super) fn linear(most: f64, start: f64, length: f64) -> Self {
        let to = if most > 0.0 { most } else { 1.0 };
        Self { from: 0.0, to, start, length, logarithmic: false }
    }

    /// Over whole powers of ten that hold `least` and `most`, both above 0.
    pub(super) fn decades(least: f64, most: f64, start: f64, length: f64) -> Self {
        let least = least.max(1e-3);
        let from = least.log10().floor();
        let to = most.max(least).log10().ceil().max(from + 1.0);
        Self { from, to, start, length, logarithmic: true }
    }

    /// Returns the pixel of a figure; one beyond the ends lies on the end.
    pub(super) fn at(self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(1e-3).log10() } else { value };
        let share = (value - self.from) / (self.to - self.from);
        self.start + self.length * share.clamp(0.0, 1.0)
    }

    /// Returns whether a figure lies on the picture.
    pub(super) fn holds(self, value: f64) -> bool {
        let value = if self.logarithmic { value.log10() } else { value };
        (self.from..=self.to).contains(&value)
    }

    /// Returns the figures worth a mark: powers of ten, or the nearest round steps.
    pub(super) fn ticks(self) -> Vec<f64> {
        if self.logarithmic {
            let mut ticks = Vec::new();
            let mut power = self.from;
            while power <= self.to + 1e-9 {
                ticks.push(10_f64.powf(power));
                power += 1.0;
            }
            return ticks;
        }
        let step = step(self.to);
        let mut ticks = Vec::new();
        let mut at = 0.0;
        while at <= self.to + step * 1e-6 {
            ticks.push(at);
            at += step;
        }
        ticks
    }
}

/// Returns 1, 2 or 5 times a power of ten that cuts `most` into three to seven parts.
fn step(most: f64) -> f64 {
    let rough = most / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = match rough / power {
        parts if parts < 1.5 => 1.0,
        parts if parts < 3.5 => 2.0,
        parts if parts < 7.5 => 5.0,
        _ => 10.0,
    };
    factor * power
}

/// Returns where a percentile lies from 0 to 1: each nine takes as much room as the last, up to
/// 99.99.
pub(super) fn nines(percentile: f64) -> f64 {
    let left = (1.0 - percentile / 100.0).clamp(1e-4, 1.0);
    left.recip().log10() / 4.0
}

/// Writes a pixel with one decimal.
pub(super) fn px(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_scale_goes_from_nothing_to_the_most() {
        let scale = Scale::linear(200.0, 10.0, 100.0);
        assert_eq!(scale.at(0.0).to_bits(), 10.0_f64.to_bits());
        assert_eq!(px(scale.at(100.0)), "60.0");
        assert_eq!(px(scale.at(400.0)), "110.0");
        assert_eq!(scale.ticks(), [0.0, 50.0, 100.0, 150.0, 200.0]);
    }

    #[test]
    fn decades_hold_all_they_were_given_and_mark_each_power() {
        let scale = Scale::decades(3.0, 1_010.0, 0.0, 100.0);
        assert_eq!(
            scale.ticks().iter().map(|tick| tick.round()).collect::<Vec<_>>(),
            [1.0, 10.0, 100.0, 1_000.0, 10_000.0]
        );
        assert_eq!(px(scale.at(100.0)), "50.0");
        assert_eq!(px(Scale::decades(0.0, 0.0, 0.0, 100.0).at(0.0)), "0.0");
        assert!(scale.holds(250.0) && !scale.holds(20_000.0) && !scale.holds(0.5));
    }

    #[test]
    fn every_nine_takes_the_same_room() {
        assert_eq!(px(nines(0.0)), "0.0");
        let rooms =
            [nines(90.0), nines(99.0), nines(99.9), nines(100.0)].map(|x| (x * 4.0).round());
        assert_eq!(rooms, [1.0, 2.0, 3.0, 4.0]);
    }
}
