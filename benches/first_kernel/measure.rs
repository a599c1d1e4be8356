//! Which children run, in which order, and what they said.
//!
//! Columns of a row take turns, so that a machine that becomes slower is slower for all of them.

use std::collections::BTreeMap;

use crate::args::Asked;
use crate::child::FILL;
use crate::columns::Column;
use crate::figures::Figures;
use crate::folders::Folders;
use crate::rows::Row;
use crate::spawn;

/// The columns that are compared in pairs, and so measured in turns, as often as there are pairs.
const PAIRED: [Column; 3] = [Column::Both, Column::Racing, Column::Bare];

/// How often each kind of child runs before any is measured: once to fill the caches, and again for what the first left
/// out because it was not compiled or not saved.
const FILLS: usize = 2;

/// All samples.
pub(crate) struct Measured {
    /// The device and its driver, for people.
    pub(crate) device: String,
    /// Whether it compiles kernels when they are first dispatched, and its driver keeps nothing for Kiln.
    pub(crate) software: bool,
    pub(crate) rows: Vec<Row>,
    samples: BTreeMap<(Row, Column), Vec<Figures>>,
}

impl Measured {
    /// The samples of a row and column, in the order in which they were taken.
    pub(crate) fn of(&self, row: Row, column: Column) -> &[Figures] {
        self.samples.get(&(row, column)).map_or(&[], Vec::as_slice)
    }

    /// One figure of each sample that has it.
    pub(crate) fn figures(&self, row: Row, column: Column, name: &str) -> Vec<f64> {
        self.of(row, column).iter().filter_map(|figures| figures.get(name)).collect()
    }

    /// The ratios of a figure in two columns, pair by pair.
    pub(crate) fn ratios(&self, row: Row, [over, under]: [Column; 2], name: &str) -> Vec<f64> {
        let (over, under) = (self.figures(row, over, name), self.figures(row, under, name));
        over.iter().zip(&under).map(|(over, under)| over / under).collect()
    }
}

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
    let mut measured = Measured {
        device: format!("{info}; driver {driver}"),
        software: kind == "software",
        rows: Row::ALL.into_iter().filter(|row| asked.rows.contains(row)).collect(),
        samples: BTreeMap::new(),
    };
    let run = |row: Row, column: Column, fill: bool| {
        let mut more = if column == Column::Bare { vec![name.as_str(), backend] } else { Vec::new() };
        if fill {
            more.push(FILL);
        }
        spawn::sample(asked, row, column, &folders.of(row, column)?, &more)
    };
    for row in measured.rows.clone() {
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
            measured.samples.entry((row, column)).or_default().push(figures);
            Ok(())
        };
        let (paired, others): (Vec<_>, Vec<_>) =
            columns.into_iter().partition(|column| row.has_bare() && PAIRED.contains(column));
        for _ in 0..asked.samples {
            others.iter().try_for_each(|&column| take(column))?;
        }
        for pair in 0..if paired.is_empty() { 0 } else { asked.pairs } {
            // Each of them is first, second and last as often.
            let order = (0..paired.len()).map(|at| paired[(at + pair) % paired.len()]);
            order.into_iter().try_for_each(&mut take)?;
        }
    }
    Ok(measured)
}
