//! Mapped elements of lines, block by block: what reductions and scans combine.
//!
//! What enters: views and the map of a kernel. What leaves: one operand per component of the accumulator, for a run of
//! one line, for one place of neighbouring lines, or for the four places of a leaf at once.

use kiln_array::Result;
use smallvec::SmallVec;

use crate::block::{Code, Machine};
use crate::gather::{Args, Loader, View};
use crate::operand::Arg;

/// One thread's way to the elements.
#[derive(Debug)]
pub(crate) struct Feed<'s> {
    views: &'s [View<'s>],
    map: &'s Code,
    /// Scratch for each row held at once; made when needed.
    rows: Vec<(Loader<'s>, Machine<'s>)>,
}

impl<'s> Feed<'s> {
    pub(crate) fn new(views: &'s [View<'s>], map: &'s Code) -> Self {
        Self { views, map, rows: vec![] }
    }

    fn rows(&mut self, count: usize) -> &mut [(Loader<'s>, Machine<'s>)] {
        let (views, map) = (self.views, self.map);
        while self.rows.len() < count {
            self.rows.push((Loader::new(views), Machine::new(map)));
        }
        &mut self.rows[..count]
    }

    /// Elements `start..start + n` of one line.
    pub(crate) fn along(&mut self, line: usize, start: usize, n: usize) -> Result<Args<'_>> {
        let (loader, machine) = &mut self.rows(1)[0];
        mapped(machine, &loader.along(line, start, n), n)
    }

    /// Elements `start..start + n` of one line in place, however many, if they are those of one operand, lying together.
    pub(crate) fn in_place(&self, line: usize, start: usize, n: usize) -> Option<Arg<'s>> {
        match self.views {
            [view] if self.map.is_identity() => view.stretch(line, start, n),
            _ => None,
        }
    }

    /// Element `place` of lines `first..first + n`.
    pub(crate) fn across(&mut self, first: usize, n: usize, place: usize) -> Result<Args<'_>> {
        let (loader, machine) = &mut self.rows(1)[0];
        mapped(machine, &loader.across(first, n, place), n)
    }

    /// Elements `place..place + 4` of lines `first..first + n`, of accumulators of one component.
    pub(crate) fn leaf(&mut self, first: usize, n: usize, place: usize) -> Result<[Arg<'_>; 4]> {
        let rows = self.rows(4).iter_mut().zip(place..);
        let rows = rows.map(|((loader, machine), place)| Ok(mapped(machine, &loader.across(first, n, place), n)?[0]));
        let rows: SmallVec<[Arg<'_>; 4]> = rows.collect::<Result<_>>()?;
        Ok([rows[0], rows[1], rows[2], rows[3]])
    }
}

fn mapped<'a>(machine: &'a mut Machine<'_>, inputs: &[Arg<'a>], n: usize) -> Result<Args<'a>> {
    machine.keep(inputs, n)?;
    let machine: &'a Machine<'_> = machine;
    Ok((0..machine.results()).map(|index| machine.result(index, inputs, n)).collect())
}
