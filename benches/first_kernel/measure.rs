//! Which children run, in which order, and what they said.
//!
//! Columns of a row take turns, so that a machine that becomes slower is slower for all of them.

use crate::args::Asked;
use crate::child::FILL;
use crate::columns::Column;
use crate::folders::Folders;
use crate::rows::Row;
use crate::samples::Measured;
use crate::spawn;

/// The columns that are compared in pairs, and so measured in turns, as often as there are pairs.
const PAIRED: [Column; 3] = [Column::Both, Column::Racing, Column::Bare];

/// How often each kind of child runs before any is measured: once to fill the caches, and again for what the first left
/// out because it was not compiled or not saved.
const FILLS: usize = 2;

/// Runs all children.
pub(crate) fn all(asked: &Asked) -> Result<Measured, String> {
    let said = spawn::device(asked)?;
    let [info, driver, name, backend, kind] = &said[..] else {
        return Err(format!("the child that opens the device says {said:?}"));
    };
    if kind == "cpu" {
        return Err("there is no GPU; --backend vulkan takes one that is run by the CPU".to_owned());
    }
    let folders = Folders::new()?;
    let mut measured = Measured::new(format!("{info}; driver {driver}"), kind == "software", asked.keep.as_deref())?;
    let run = |row: Row, column: Column, fill: bool| {
        let mut more = if column == Column::Bare { vec![name.as_str(), backend] } else { Vec::new() };
        if fill {
            more.push(FILL);
        }
        spawn::sample(asked, row, column, &folders.of(row, column)?, &more)
    };
    for row in Row::ALL.into_iter().filter(|row| asked.rows.contains(row)) {
        eprintln!("first_kernel: {}", row.name());
        let mut columns = vec![Column::Cold, Column::Kiln, Column::Both, Column::Prewarmed, Column::Racing];
        match row {
            Row::Program => columns.extend([Column::OneThread, Column::EightThreads]),
            _ if row.has_bare() => columns.push(Column::Bare),
            _ => {}
        }
        for column in columns.iter().filter(|column| column.needs_files()) {
            (0..FILLS).try_for_each(|_| run(row, *column, true).map(drop))?;
        }
        let mut take = |column| -> Result<(), String> {
            let figures = run(row, column, false)?;
            measured.add(row, column, figures)
        };
        let (paired, others): (Vec<_>, Vec<_>) =
            columns.into_iter().partition(|column| row.has_bare() && PAIRED.contains(column));
        let pairs = if paired.is_empty() { 0 } else { asked.pairs };
        let turns = asked.samples.max(pairs);
        // So many of the turns, evenly.
        let is_due = |turn: usize, times: usize| turn * times / turns != (turn + 1) * times / turns;
        let mut pair = 0;
        for turn in 0..turns {
            if is_due(turn, asked.samples) {
                others.iter().try_for_each(|&column| take(column))?;
            }
            if is_due(turn, pairs) {
                // Each of them is first, second and last as often.
                let order = (0..paired.len()).map(|at| paired[(at + pair) % paired.len()]);
                order.into_iter().try_for_each(&mut take)?;
                pair += 1;
            }
        }
    }
    Ok(measured)
}
