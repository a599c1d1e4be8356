//! All samples, and the file that keeps them.
//!
//! The file has a line for the device and a line for each sample, written as it is taken, so that a run that is cut off
//! loses nothing, and rows that were measured one after the other are reported together.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::columns::Column;
use crate::figures::Figures;
use crate::rows::Row;

/// What the line of the device begins with.
const DEVICE: &str = "device";
const SOFTWARE: &str = "device, run by software";

/// All samples.
pub(crate) struct Measured {
    /// The device and its driver, for people.
    pub(crate) device: String,
    /// Whether it compiles kernels when they are first dispatched, and its driver keeps nothing for Kiln.
    pub(crate) software: bool,
    samples: BTreeMap<(Row, Column), Vec<Figures>>,
    keep: Option<File>,
}

impl Measured {
    /// None so far. With a path, each is also written to a new file.
    pub(crate) fn new(device: String, software: bool, keep: Option<&Path>) -> Result<Self, String> {
        let keep = keep.map(|path| File::create_new(path).map_err(|error| format!("{}: {error}", path.display())));
        let mut measured = Self { device, software, samples: BTreeMap::new(), keep: keep.transpose()? };
        let mark = if software { SOFTWARE } else { DEVICE };
        measured.write(&format!("{mark}: {}", measured.device))?;
        Ok(measured)
    }

    /// One more.
    pub(crate) fn add(&mut self, row: Row, column: Column, figures: Figures) -> Result<(), String> {
        self.write(&format!("{} {} {}", row.name(), column.name(), figures.line()))?;
        self.samples.entry((row, column)).or_default().push(figures);
        Ok(())
    }

    fn write(&mut self, line: &str) -> Result<(), String> {
        self.keep.as_mut().map_or(Ok(()), |file| writeln!(file, "{line}").map_err(|error| error.to_string()))
    }

    /// Adds the samples of a file to those of other files, of the same device and of other rows: pairs are of one run.
    pub(crate) fn read(path: &Path, others: Option<Self>) -> Result<Self, String> {
        let said = |what: &str| format!("{}: {what}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| said(&error.to_string()))?;
        let mut lines = text.lines();
        let (mark, device) = lines.next().and_then(|line| line.split_once(": ")).ok_or_else(|| said("no device"))?;
        let software = match mark {
            DEVICE => false,
            SOFTWARE => true,
            _ => return Err(said("no device")),
        };
        let mut measured = match others {
            Some(others) if others.device == device => others,
            Some(others) => return Err(said(&format!("another device than {}", others.device))),
            None => Self::new(device.to_owned(), software, None)?,
        };
        let known = measured.rows();
        for line in lines {
            let (row, column, figures) = sample(line).ok_or_else(|| said(&format!("no sample: {line}")))?;
            if known.contains(&row) {
                return Err(said(&format!("{} is in another file, too", row.name())));
            }
            measured.add(row, column, figures)?;
        }
        Ok(measured)
    }

    /// The rows of which there are samples.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let measured = |row: &Row| self.samples.keys().any(|(known, _)| known == row);
        Row::ALL.into_iter().filter(measured).collect()
    }

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

fn sample(line: &str) -> Option<(Row, Column, Figures)> {
    let mut words = line.splitn(3, ' ');
    Some((Row::named(words.next()?)?, Column::named(words.next()?)?, Figures::parse(words.next()?)?))
}
