//! File lengths: half of a crate's files fit on a few screens, and none is endless.

use std::path::Path;

use crate::source;
use crate::workspace::Workspace;

const LONGEST: usize = 600;
const MEDIAN: usize = 200;

/// Prints median and longest file of each crate; fails above a limit.
pub(crate) fn run() -> Result<(), String> {
    let workspace = Workspace::members()?;
    let root = crate::process::root();
    let mut excesses = Vec::new();
    println!("{:<14} {:>5} {:>6} {:>4}  longest", "crate", "files", "median", "max");
    for package in workspace.by_name() {
        let mut lengths = Vec::new();
        for path in source::files(&package.dir, &["rs", "wgsl", "h", "cpp"])? {
            let shown = path.strip_prefix(&root).unwrap_or(&path).to_owned();
            lengths.push((source::read(&path)?.lines().count(), shown));
        }
        lengths.sort();
        let Some((longest, path)) = lengths.last() else {
            continue;
        };
        let counts: Vec<usize> = lengths.iter().map(|(count, _)| *count).collect();
        let median = median(&counts);
        println!("{:<14} {:>5} {median:>6} {longest:>4}  {}", package.name, counts.len(), path.display());
        excesses.extend(over_median(&package.name, median));
        excesses.extend(lengths.iter().filter_map(|(count, path)| over_longest(path, *count)));
    }
    if excesses.is_empty() { Ok(()) } else { Err(excesses.join("\n       ")) }
}

/// The middle of sorted counts, the upper one of two.
fn median(sorted: &[usize]) -> usize {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

fn over_median(name: &str, median: usize) -> Option<String> {
    (median > MEDIAN).then(|| format!("{name}: the median file has {median} lines, over {MEDIAN}"))
}

fn over_longest(path: &Path, count: usize) -> Option<String> {
    (count > LONGEST).then(|| format!("{}: {count} lines, over {LONGEST}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        assert_eq!(over_longest(Path::new("a.rs"), 600), None);
        assert_eq!(over_longest(Path::new("a.rs"), 601).as_deref(), Some("a.rs: 601 lines, over 600"));
        assert_eq!(over_median("a", 200), None);
        assert!(over_median("a", 201).is_some());
        assert_eq!(median(&[1, 2, 300]), 2);
        assert_eq!(median(&[]), 0);
    }
}
