//! How the benches measure: long enough rounds, several of them, medians.
//!
//! What enters: a closure that does its work so many times and waits once. What leaves: seconds of one time.

use std::time::Instant;

/// Seconds that a round lasts at least.
const LONG_ENOUGH: f64 = 0.3;
/// Rounds of a measurement.
pub(crate) const ROUNDS: usize = 5;

/// The middle of some figures, the upper one of two; not a number where there is none.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Seconds of one time: the median of rounds.
pub(crate) fn seconds<E>(mut repeat: impl FnMut(usize) -> Result<(), E>) -> Result<f64, E> {
    let count = warm_up(&mut repeat)?;
    let rounds = (0..ROUNDS).map(|_| round(&mut repeat, count));
    Ok(median(rounds.collect::<Result<_, E>>()?))
}

/// Runs until a round is long enough; returns how often that was.
pub(crate) fn warm_up<E>(repeat: &mut impl FnMut(usize) -> Result<(), E>) -> Result<usize, E> {
    repeat(1)?;
    let mut count = 1;
    while round(repeat, count)? * to_f64(count) < LONG_ENOUGH && count < 1 << 24 {
        count *= 2;
    }
    Ok(count)
}

/// Seconds of one time in a round of so many.
pub(crate) fn round<E>(repeat: &mut impl FnMut(usize) -> Result<(), E>, count: usize) -> Result<f64, E> {
    let start = Instant::now();
    repeat(count)?;
    Ok(start.elapsed().as_secs_f64() / to_f64(count))
}

fn to_f64(count: usize) -> f64 {
    count as f64
}
