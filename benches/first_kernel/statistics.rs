//! Medians, percentiles, and intervals that assume nothing of how figures are distributed.

/// The middle of some figures, the mean of two; not a number where there is none.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let sorted = sorted(figures);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => f64::NAN,
        Some(&upper) if sorted.len() % 2 == 1 => upper,
        Some(&upper) => f64::midpoint(sorted[middle - 1], upper),
    }
}

/// The smallest figure that 95 of 100 do not exceed.
pub(crate) fn p95(figures: &[f64]) -> f64 {
    let rank = (figures.len() * 95).div_ceil(100).max(1);
    sorted(figures).get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// A 95 % interval of the median: two order statistics, by the sign test. Below six figures there is none, and it is
/// all of them.
pub(crate) fn interval(figures: &[f64]) -> (f64, f64) {
    let sorted = sorted(figures);
    let Some((&first, &last)) = sorted.first().zip(sorted.last()) else { return (f64::NAN, f64::NAN) };
    let n = sorted.len();
    // How likely at most `left` of n figures lie below the median: binomial, by logarithms since 2^n is too large.
    let (mut log_chance, mut below, mut left) = (-(n as f64) * 2f64.ln(), 0.0, 0);
    loop {
        below += log_chance.exp();
        if below > 0.025 {
            break;
        }
        log_chance += ((n - left) as f64).ln() - ((left + 1) as f64).ln();
        left += 1;
    }
    if left == 0 { (first, last) } else { (sorted[left - 1], sorted[n - left]) }
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
