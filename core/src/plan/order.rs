//! The order in which values combine: a function of a line's length and nothing else.
//!
//! Every backend, device and schedule honours it, so sums have the same bits everywhere. It is pairwise summation:
//! errors grow with log2 of the length.
//!
//! ```text
//! element   0 1 2 3   4 5 6 7   8 9 a b   c d e f   g h          a line of 18
//! leaf      (0⊕1)⊕2)⊕3                              g⊕h          four neighbours, left to right
//! level 0   L0        L1        L2        L3        L4
//! level 1   L0⊕L1               L2⊕L3               L4           neighbours, left ⊕ right, aligned from the start;
//! level 2   (L0⊕L1)⊕(L2⊕L3)                         L4           a block without a right neighbour passes up
//! level 3   ((L0⊕L1)⊕(L2⊕L3))⊕L4
//! ```
//!
//! No identity is ever added, so operators need none and `−0 + −0` stays `−0`.
//!
//! A running combination at element `i` takes the same blocks: within its leaf from the left, then, for each level at
//! which `i` lies in a right block, `left block's total ⊕ value`. So the last running value is the total, bit for bit.
//!
//! The functions here are that definition, as plain as it can be said; backends are tested against them.

use crate::recording::LEAF;

/// The total of a line; `None` for an empty line.
pub fn total<T: Clone>(line: &[T], combine: &mut impl FnMut(&T, &T) -> T) -> Option<T> {
    let mut level: Vec<T> = Vec::with_capacity(line.len().div_ceil(LEAF));
    for leaf in line.chunks(LEAF) {
        let (first, rest) = leaf.split_first()?;
        level.push(rest.iter().fold(first.clone(), |total, x| combine(&total, x)));
    }
    balanced(level, combine)
}

/// The total of values that stand for whole blocks: a balanced tree of neighbours.
pub fn balanced<T: Clone>(mut level: Vec<T>, combine: &mut impl FnMut(&T, &T) -> T) -> Option<T> {
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| if let [l, r] = pair { combine(l, r) } else { pair[0].clone() }).collect();
    }
    level.pop()
}

/// The running combination of a line.
pub fn running<T: Clone>(line: &[T], combine: &mut impl FnMut(&T, &T) -> T) -> Vec<T> {
    let mut out = Vec::with_capacity(line.len());
    // Totals of the complete blocks to the left of this leaf, largest first, with their levels.
    let mut left: Vec<(u32, T)> = Vec::new();
    for leaf in line.chunks(LEAF) {
        let mut value: Option<T> = None;
        for x in leaf {
            let next = value.as_ref().map_or_else(|| x.clone(), |value| combine(value, x));
            out.push(left.iter().rev().fold(next.clone(), |value, (_, block)| combine(block, &value)));
            value = Some(next);
        }
        let Some(mut block) = value else { break };
        let mut level = 0;
        while let Some((_, sibling)) = left.pop_if(|(at, _)| *at == level) {
            block = combine(&sibling, &block);
            level += 1;
        }
        left.push((level, block));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(len: usize) -> Vec<String> {
        (0..len).map(|i| i.to_string()).collect()
    }

    #[test]
    fn the_order_of_eighteen_is_the_one_drawn_above() {
        let mut join = |a: &String, b: &String| format!("({a}{b})");
        let line: Vec<String> = "0123456789abcdefgh".chars().map(String::from).collect();
        assert_eq!(total(&line, &mut join).unwrap(), "((((((01)2)3)(((45)6)7))((((89)a)b)(((cd)e)f)))(gh))");
        assert_eq!(running(&line, &mut join)[13], "(((((01)2)3)(((45)6)7))((((89)a)b)(cd)))");
    }

    #[test]
    fn the_last_running_value_is_the_total() {
        let mut join = |a: &String, b: &String| format!("({a} {b})");
        for len in 1..200 {
            let line = words(len);
            let running = running(&line, &mut join);
            assert_eq!(running.len(), len);
            for (i, value) in running.iter().enumerate() {
                assert_eq!(*value, total(&line[..=i], &mut join).unwrap());
            }
        }
    }
}
