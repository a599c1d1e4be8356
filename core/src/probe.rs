//! A question that only running can answer: does the device's compiler keep the order of float additions?
//!
//! Kernels are written in the order of [`order`](crate::plan::order), and most compilers keep it. Metal's may not, as its
//! default is fast math, which lets a compiler regroup additions.

use crate::array::Array;
use crate::device::Device;
use crate::error::Result;
use crate::plan::order;
use crate::reduce::Reduce;
use crate::scan::Scan;

/// Elements of the known data: several tiles of most schedules, and no multiple of anything.
const LENGTH: usize = 20_011;

/// A Weyl sequence, scaled so that magnitudes span ten binary orders.
fn known() -> Vec<f32> {
    let value = |i: u32| {
        let bits = i.wrapping_mul(0x9e37_79b9);
        let magnitude = f32::from_bits((120 + bits % 10) << 23 | bits >> 9);
        if bits & 0x100 == 0 { magnitude } else { -magnitude }
    };
    (1..).take(LENGTH).map(value).collect()
}

impl Device {
    /// Whether sums and running sums of floats have the bits that [`order`] defines, measured on
    /// known data whose sums differ in any other order. Waits for the device; nothing is remembered.
    ///
    /// It is `true` wherever the compiler does not regroup additions. Where it is `false`, results are as accurate as
    /// promised but their last bits are this device's own.
    ///
    /// # Errors
    /// The device failed.
    pub fn keeps_float_order(&self) -> Result<bool> {
        let data = known();
        let mut add = |a: &f32, b: &f32| a + b;
        let line: Array<f32> = self.array(&data, LENGTH)?;
        let sum = line.sum(..)?.item()?;
        let running = line.cumsum(0)?.to_host()?.into_vec();
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits();
        let sums_agree = order::total(&data, &mut add).is_some_and(|want| same(sum, want));
        let want = order::running(&data, &mut add);
        Ok(sums_agree && running.iter().zip(want).all(|(&got, want)| same(got, want)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A probe whose data add up to the same in any order would answer yes everywhere.
    #[test]
    fn the_data_tell_orders_apart() {
        let data = known();
        let serial: f32 = data.iter().sum();
        let pairs: f32 = data.chunks(2).map(|pair| pair.iter().sum::<f32>()).sum();
        let tree = order::total(&data, &mut |a: &f32, b: &f32| a + b).unwrap();
        let bits = [tree, serial, pairs].map(f32::to_bits);
        assert!(bits[0] != bits[1] && bits[0] != bits[2] && bits[1] != bits[2], "{tree} {serial} {pairs}");
    }
}
