//! The kernels that a program used, as a text that people can read: which, how often, when last.
//!
//! ```text
//! kiln manifest 1
//! 12 20422 a3f0… reduce kept=0 walked=1 …      processes that used it, day of last use, key of its text, specification
//! sum 0123…
//! ```
//! What enters: a text from disk, and what this process used. What leaves: a list, the latest and most used first, and the
//! text of both together. A line that this version does not understand is left out; a text with a wrong sum is nothing.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use kiln_array::kernel::{KernelKey, KernelSpec};

use super::entry::hash;

const FIRST: &str = "kiln manifest 1";

/// Kernels of one program that are remembered.
const MOST: usize = 512;

/// Days without use after which a kernel is forgotten.
const DAYS: u64 = 60;

/// A kernel's use.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Used {
    pub(crate) spec: Arc<KernelSpec>,
    /// Processes that used it.
    pub(crate) count: u64,
    /// The day of its last use, since 1970.
    pub(crate) day: u64,
    /// The key of its text, under which its file is kept.
    pub(crate) text: u128,
}

/// Every kernel that a program used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manifest {
    kernels: HashMap<KernelKey, Used>,
}

impl Manifest {
    /// Reads a text; why it is none, and how many lines it has that are no kernels of this version.
    pub(crate) fn read(text: &str) -> Result<(Self, usize), &'static str> {
        let (body, sum) = text.trim_end().rsplit_once("\nsum ").ok_or("it does not end")?;
        if format!("{:032x}", hash(body.as_bytes())) != sum {
            return Err("its checksum is wrong");
        }
        let mut lines = body.lines();
        if lines.next() != Some(FIRST) {
            return Err("it is of another version");
        }
        let (mut manifest, mut strange) = (Self::default(), 0);
        for line in lines.take(MOST) {
            match parse(line) {
                Some(used) => drop(manifest.kernels.insert(used.spec.key(), used)),
                None => strange += 1,
            }
        }
        Ok((manifest, strange))
    }

    /// The text.
    pub(crate) fn write(&self) -> String {
        let mut text = FIRST.to_owned();
        for Used { spec, count, day, text: key } in self.by_use().into_iter().take(MOST) {
            // Writing to a string does not fail.
            let _ = write!(text, "\n{count} {day} {key:032x} {spec}");
        }
        let sum = hash(text.as_bytes());
        let _ = writeln!(text, "\nsum {sum:032x}");
        text
    }

    /// The latest first; of one day the most used, then in the order of their keys.
    pub(crate) fn by_use(&self) -> Vec<Used> {
        let mut all: Vec<_> = self.kernels.iter().collect();
        all.sort_by_key(|(key, used)| (std::cmp::Reverse((used.day, used.count)), **key));
        all.into_iter().map(|(_, used)| used.clone()).collect()
    }

    /// Adds one process's use of a kernel.
    pub(crate) fn add(&mut self, spec: &Arc<KernelSpec>, text: u128, day: u64) {
        let used = Used { spec: Arc::clone(spec), count: 0, day, text };
        let used = self.kernels.entry(spec.key()).or_insert(used);
        used.count = used.count.saturating_add(1);
        // A clock may have gone backwards; the latest day known stays.
        used.day = used.day.max(day);
        used.text = text;
    }

    /// Forgets what was not used for long.
    pub(crate) fn forget(&mut self, today: u64) {
        self.kernels.retain(|_, used| used.day.saturating_add(DAYS) >= today);
    }

    /// Takes over what another list knows.
    pub(crate) fn merge(&mut self, other: Self) {
        for (key, used) in other.kernels {
            self.kernels.entry(key).or_insert(used);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.kernels.len()
    }
}

fn parse(line: &str) -> Option<Used> {
    let mut parts = line.splitn(4, ' ');
    let (count, day) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let text = u128::from_str_radix(parts.next()?, 16).ok()?;
    let spec: KernelSpec = parts.next()?.parse().ok()?;
    Some(Used { spec: Arc::new(spec), count, day, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(operator: &str) -> Arc<KernelSpec> {
        let text = format!("map kept=0 walked=1 a:f32:quad o:f32:quad map{{v0:f32=in0; v1:f32={operator}(v0); -> v1}}");
        Arc::new(text.parse().unwrap())
    }

    #[test]
    fn uses_come_back_latest_and_most_used_first() {
        let mut manifest = Manifest::default();
        manifest.add(&spec("neg"), 1, 100);
        manifest.add(&spec("abs"), 2, 101);
        manifest.add(&spec("sqrt"), 3, 101);
        manifest.add(&spec("sqrt"), 3, 90);
        let (back, strange) = Manifest::read(&manifest.write()).unwrap();
        assert_eq!(strange, 0);
        let names: Vec<_> = back.by_use().iter().map(|used| used.spec.name).collect();
        assert_eq!(names, ["sqrt", "abs", "neg"]);
        assert_eq!(back.by_use()[0].count, 2);
        assert_eq!(back.by_use()[0].day, 101, "a clock that went back is not believed");
        assert_eq!(back.write(), manifest.write());
    }

    #[test]
    fn damage_is_noticed_and_strange_lines_are_left_out() {
        let mut manifest = Manifest::default();
        manifest.add(&spec("neg"), 1, 100);
        let text = manifest.write();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            if changed.trim_end() != text.trim_end() {
                assert!(Manifest::read(&changed).is_err(), "byte {at}");
            }
            assert!(Manifest::read(&text[..at]).is_err() || at + 1 == text.len(), "{at} bytes");
        }
        let body = text.trim_end().rsplit_once("\nsum ").unwrap().0;
        let body = body.replace("neg", "negate");
        let strange = format!("{body}\nsum {:032x}\n", hash(body.as_bytes()));
        let (manifest, count) = Manifest::read(&strange).unwrap();
        assert_eq!((manifest.len(), count), (0, 1));
    }

    #[test]
    fn what_is_not_used_is_forgotten() {
        let mut manifest = Manifest::default();
        manifest.add(&spec("neg"), 1, 100);
        manifest.add(&spec("abs"), 1, 170);
        manifest.forget(165);
        assert_eq!(manifest.by_use().iter().map(|used| used.spec.name).collect::<Vec<_>>(), ["abs"]);
    }

    #[test]
    fn a_manifest_is_bounded() {
        let mut manifest = Manifest::default();
        for kept in 0..=255u8 {
            for walked in 0..4u8 {
                let spec = format!("map kept={kept} walked={walked} o:f32:quad map{{v0:f32=const0; -> v0}}");
                manifest.add(&Arc::new(spec.parse().unwrap()), 1, 1);
            }
        }
        let (back, _) = Manifest::read(&manifest.write()).unwrap();
        assert_eq!((manifest.len(), back.len()), (1024, MOST));
    }
}
