//! One program with one draw: the oracle's results against Kiln's.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kiln::{Device, Schedule};

use crate::draw::Draw;
use crate::library::{self, Any, bad};
use crate::oracle::{self, BAD, Bad, Host, Outcome};
use crate::program::{FAMILIES, Program, Statement, Type};
use crate::random::Rng;
use crate::scalars::was_inexact;
use crate::text;
use crate::watchdog::Watchdog;

/// A program and what is drawn for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seed {
    pub(crate) structure: u64,
    pub(crate) draw: u64,
}

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.structure, self.draw)
    }
}

/// Draws that share ranks, kinds of views and axes, and so kernels.
const PER_FORM: u64 = 16;

/// What ran.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) programs: usize,
    pub(crate) families: BTreeMap<&'static str, usize>,
    pub(crate) errors: BTreeMap<Bad, usize>,
    /// Results with floats that a device may round in its own way, of which only the shape was compared.
    pub(crate) shapes_only: usize,
}

impl Counts {
    /// The families and errors that nothing has had.
    pub(crate) fn missing(&self) -> Vec<String> {
        let families = FAMILIES.iter().filter(|name| !self.families.contains_key(*name)).map(|name| (*name).to_owned());
        families
            .chain(BAD.iter().filter(|kind| !self.errors.contains_key(kind)).map(|kind| format!("{kind:?}")))
            .collect()
    }
}

/// Runs one program; an error says what differs, after the program's text.
pub(crate) fn run(
    device: &Device,
    exact: bool,
    seed: Seed,
    watchdog: &Watchdog,
    counts: &mut Counts,
) -> Result<(), String> {
    let program = Program::random(seed.structure);
    let forced = Schedule { log_slots: program.forced.log_slots, line_fastest: program.forced.line_fastest };
    let device = &device.with_schedule(forced);
    let mut form = Rng::of(seed.structure, 3 + seed.draw / PER_FORM);
    let mut fill = Rng::of(seed.structure, u64::MAX - seed.draw);
    let mut text = format!("program {seed}, {forced:?}\n");
    let (mut wants, mut gots): (Vec<Option<Host>>, Vec<Option<Any>>) = (Vec::new(), Vec::new());
    counts.programs += 1;
    for (number, statement) in program.statements.iter().enumerate() {
        let draw = Draw::random(&mut form, &mut fill, statement, &wants, exact);
        text += &text::statement(number, statement, &draw);
        watchdog.begin(&text);
        *counts.families.entry(statement.end.name()).or_default() += 1;
        was_inexact();
        let want = oracle::statement(statement, &draw, &wants);
        let loose = was_inexact() && !exact;
        let run = AssertUnwindSafe(|| compared(device, statement, &draw, &want, &gots, loose, counts));
        let got = catch_unwind(run).unwrap_or_else(|panic| Err(format!("panic: {}", words(&*panic))));
        watchdog.end();
        let got = got.map_err(|what| format!("{text}  {what}"))?;
        let lost = loose || statement.end.is_approximate() || got.is_none();
        let want = want.ok().and_then(|want| if let Outcome::Exact(host) = want { Some(host) } else { None });
        wants.push(want.filter(|_| !lost));
        gots.push(got);
    }
    Ok(())
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_else(|| "no words".to_owned())
}

/// A statement's result, which is as it must be; `None` where it must fail and does.
fn compared(
    device: &Device,
    statement: &Statement,
    draw: &Draw,
    want: &Result<Outcome, Bad>,
    results: &[Option<Any>],
    loose: bool,
    counts: &mut Counts,
) -> Result<Option<Any>, String> {
    let got = library::statement(device, statement, draw, results);
    let (got, want) = match (got, want) {
        (Err(error), Err(want)) if bad(&error) == Some(*want) => {
            *counts.errors.entry(*want).or_default() += 1;
            return Ok(None);
        }
        (Err(error), Err(want)) => return Err(format!("error: {error}; it must be of kind {want:?}")),
        (Err(error), Ok(_)) => return Err(format!("error: {error}; there must be none")),
        (Ok(got), Err(want)) => {
            return Err(format!("no error, but shape {:?}; there must be one of kind {want:?}", got.shape()));
        }
        (Ok(got), Ok(want)) => (got, want),
    };
    let shape = match want {
        Outcome::Exact(host) => &host.shape,
        Outcome::Near(shape, ..) => shape,
    };
    if got.shape() != *shape {
        return Err(format!("shape {:?}; it must be {shape:?}", got.shape()));
    }
    let (ty, bits) = got.read().map_err(|error| format!("reading: {error}"))?;
    if bits.len() != oracle::size(shape) || ty != statement.end.result(statement.tree.ty) {
        return Err(format!("{} values of {ty} for shape {shape:?}", bits.len()));
    }
    match got.item() {
        Ok(item) if bits == [item] => {}
        Err(error) if bits.len() != 1 && bad(&error) == Some(Bad::NotOne) => {
            *counts.errors.entry(Bad::NotOne).or_default() += 1;
        }
        item => return Err(format!("item is {item:?} for shape {shape:?}")),
    }
    if loose {
        counts.shapes_only += 1;
        return Ok(Some(got));
    }
    let wrong: Vec<String> = match want {
        Outcome::Exact(host) => {
            let pairs = bits.iter().zip(&host.bits).enumerate();
            let pairs = pairs.filter(|(_, (got, want))| !same(ty, **got, **want));
            pairs.map(|(at, (got, want))| differs(at, &text::value(ty, *got), &text::value(ty, *want))).collect()
        }
        Outcome::Near(_, wants, ulps) => {
            let pairs = bits.iter().map(|&bits| f32::from_bits(bits)).zip(wants).enumerate();
            let pairs = pairs.filter(|(_, (got, want))| !near(*got, **want, *ulps));
            pairs.map(|(at, (got, want))| differs(at, &format!("{got:?}"), &format!("{want:?}"))).collect()
        }
    };
    if wrong.is_empty() {
        return Ok(Some(got));
    }
    let shown = wrong.iter().take(4).cloned().collect::<Vec<_>>().join("; ");
    Err(format!("{} of {} values of shape {shape:?} are wrong: {shown}", wrong.len(), bits.len()))
}

fn differs(at: usize, got: &str, want: &str) -> String {
    format!("[{at}] is {got}, must be {want}")
}

/// Whether bits are the same, all NaN being one.
fn same(ty: Type, got: u32, want: u32) -> bool {
    let nan = |bits| ty == Type::F32 && f32::from_bits(bits).is_nan();
    got == want || (nan(got) && nan(want))
}

/// Whether a value is within so many units in the last place of what it should be.
fn near(got: f32, want: f64, ulps: f64) -> bool {
    if want.is_nan() || got.is_nan() {
        return want.is_nan() && got.is_nan();
    }
    let (wide, largest) = (f64::from(got), f64::from(f32::MAX));
    if got.is_infinite() || want.abs() > largest {
        // At the end of the range, an infinity and the largest numbers are neighbours.
        let close = |x: f64| x.abs() >= largest * (1.0 - ulps * f64::from(f32::EPSILON));
        return wide.signum() == want.signum() && close(wide) && close(want);
    }
    let ulp = want.abs().max(f64::from(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
    // Results that are subnormal may be flushed to zero.
    (wide - want).abs() <= ulps * ulp || (want.abs() < f64::from(f32::MIN_POSITIVE) * 1.001 && wide == 0.0)
}
