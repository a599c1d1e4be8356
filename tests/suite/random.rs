//! Random numbers that a seed decides, the same everywhere: splitmix64.

#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

#[allow(dead_code, reason = "the suite and the soak each use a part")]
impl Rng {
    /// The numbers of two seeds together.
    pub(crate) fn of(a: u64, b: u64) -> Self {
        let mut random = Self(a);
        let mixed = random.next();
        Self(mixed ^ b.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// A number below `n`; 0 for 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: isize, high: isize) -> isize {
        low + self.below((high - low + 1).max(1) as usize) as isize
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A set of axes, in any order, some counted from the end; and counted from the front.
    pub(crate) fn axes(&mut self, rank: usize) -> (Vec<isize>, Vec<usize>) {
        let count = self.below(rank + 1);
        let plain: Vec<usize> = self.permutation(rank).into_iter().take(count).collect();
        let given = plain.iter().map(|&axis| self.axis(axis, rank)).collect();
        (given, plain)
    }

    /// Some order of the numbers below `count`.
    pub(crate) fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            all.swap(at, self.below(at + 1));
        }
        all
    }

    /// An axis, maybe counted from the end.
    pub(crate) fn axis(&mut self, axis: usize, rank: usize) -> isize {
        if self.one_in(2) { axis as isize } else { axis as isize - rank as isize }
    }
}
