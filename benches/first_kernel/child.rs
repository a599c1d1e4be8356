//! One process that is measured: opens a device, computes, says how long that took.
//!
//! What enters: a row and a column; what decides the caches is in the environment. What leaves: the line [`RESULT`] as
//! soon as the first result is there, and a line of figures. Results are compared whole after that.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use kiln::prelude::*;
use kiln::wgpu::Wgpu;
use kiln::{DeviceKind, Origin};

use crate::bare;
use crate::columns::Column;
use crate::figures::Figures;
use crate::program::{self, Inputs, KERNELS, Output, STATEMENTS};
use crate::rows::{Row, check};
use crate::spawn::RESULT;

/// The word after ROW and COLUMN of a child that fills caches and is not measured.
pub(crate) const FILL: &str = "fill";

/// How long such a child stays: drivers write their caches behind the program, and some not at its end.
const LINGER: Duration = Duration::from_millis(500);

/// Calls after the first, of each kind.
const MORE_CALLS: usize = 9;

/// The longest pause before a later call.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A kind of later calls.
pub(crate) struct Later {
    /// The name of their medians, before a dot and the phase.
    pub(crate) name: &'static str,
    /// Whether their arrays are kept, so that each takes new memory, as the first did. Those that are dropped leave it to
    /// the next.
    keeps: bool,
    /// Whether the thread sleeps before each as long as it waited for the warm-up before the first: the processor's caches
    /// and the GPU are at rest then, as they were for the first.
    pauses: bool,
}

/// Later calls.
pub(crate) const LATER: [Later; 3] = [
    Later { name: "steady", keeps: false, pauses: false },
    Later { name: "steady-new", keeps: true, pauses: false },
    Later { name: "steady-paused", keeps: false, pauses: true },
];

/// Runs a child. `start` is the beginning of `main`.
pub(crate) fn run(start: Instant, words: &[String]) -> Result<(), Box<dyn Error>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words[..] == ["device"] {
        return device();
    }
    let [row, column, more @ ..] = &words[..] else { return Err("--child takes a row and a column".into()) };
    let row = Row::named(row).ok_or("there is no such row")?;
    let column = Column::named(column).ok_or("there is no such column")?;
    let figures = match (column, more) {
        (Column::Bare, [name, backend, ..]) => bare::run(start, row, name, backend)?,
        (Column::OneThread | Column::EightThreads, _) => rehearsed()?,
        _ => measured(start, row, column)?,
    };
    if more.contains(&FILL) {
        std::thread::sleep(LINGER);
    }
    writeln!(std::io::stdout(), "{}", figures.line())?;
    Ok(())
}

/// Says which device it is.
fn device() -> Result<(), Box<dyn Error>> {
    let gpu = kiln::open()?;
    let info = gpu.info();
    let kind = match info.kind {
        DeviceKind::Cpu => "cpu",
        DeviceKind::SoftwareGpu => "software",
        _ => "gpu",
    };
    writeln!(std::io::stdout(), "{info}\t{}\t{}\t{}\t{kind}", info.driver, info.name, info.backend)?;
    Ok(())
}

/// Tells the parent that the first result is there.
pub(crate) fn announce() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{RESULT}")?;
    out.flush()
}

/// A row on Kiln's device.
fn measured(start: Instant, row: Row, column: Column) -> Result<Figures, Box<dyn Error>> {
    let mut figures = Figures::default();
    let values = row.values();
    let opening = Instant::now();
    let gpu = kiln::open()?;
    figures.time("open", opening.elapsed());
    let wgpu = kiln::wgpu::backend(&gpu).ok_or("the device is no GPU")?;
    let mut waited = Duration::ZERO;
    if column == Column::Prewarmed {
        let waiting = Instant::now();
        let _ = gpu.warm_up().wait();
        waited = waiting.elapsed();
        figures.time("warm", waited);
    }
    let calling = Instant::now();
    let call = Call::of(row, &gpu, wgpu, &values)?;
    let called = calling.elapsed();
    figures.time("main", start.elapsed());
    announce()?;

    figures.time("call", called);
    let times = wgpu.open_times();
    figures.time("instance", times.instance);
    figures.time("adapter", times.adapter);
    figures.time("device", times.device);
    call.tell(column, &mut figures);
    let log = wgpu.compile_log();
    figures.set("kernels", log.len() as f64);
    let kept = log.iter().filter(|kernel| matches!(kernel.origin, Origin::CachedText | Origin::CachedDriver));
    figures.set("cached", kept.count() as f64);
    let used = wgpu.counters().kernels_compiled;
    if row == Row::Program && used < KERNELS as u64 {
        return Err(format!("the program used {used} kernels, fewer than {KERNELS}").into());
    }
    call.check(&values)?;
    drop(call);
    if column == Column::Prewarmed {
        let pause = waited.min(LONGEST_PAUSE);
        let mut kept = Vec::new();
        for later in LATER {
            let mut calls = Vec::new();
            for _ in 0..MORE_CALLS {
                if later.pauses {
                    std::thread::sleep(pause);
                }
                let calling = Instant::now();
                let call = Call::of(row, &gpu, wgpu, &values)?;
                let mut more = Figures::default();
                more.time("call", calling.elapsed());
                call.tell(column, &mut more);
                calls.push(more);
                call.check(&values)?;
                if later.keeps {
                    kept.push(call);
                }
            }
            for phase in Call::PHASES {
                let times: Vec<f64> = calls.iter().filter_map(|call| call.get(phase)).collect();
                figures.set(&format!("{}.{phase}", later.name), crate::statistics::median(&times));
            }
        }
    }
    Ok(figures)
}

/// The kernels of the whole program, compiled by a warm-up that is waited for.
fn rehearsed() -> Result<Figures, Box<dyn Error>> {
    let gpu = kiln::open()?;
    // The device's first steps, and the common kernels.
    let _ = gpu.warm_up().wait();
    let waiting = Instant::now();
    let report = gpu.rehearse(program::rehearse)?.wait();
    let mut figures = Figures::default();
    figures.time("warm", waiting.elapsed());
    announce()?;
    let compiled = report.kernels.iter().filter(|kernel| kernel.origin == Origin::Compiled).count();
    if compiled < KERNELS {
        return Err(format!("{compiled} kernels were compiled, fewer than {KERNELS}: {report:?}").into());
    }
    figures.set("kernels", compiled as f64);
    Ok(figures)
}

/// A call, from values on the host to a value on the host, and its phases.
struct Call {
    row: Row,
    upload: Duration,
    /// Until the calls returned, compiles included.
    planned: Duration,
    dispatch: Duration,
    readback: Duration,
    /// Render, naga, pipeline, of all kernels that were compiled meanwhile.
    compiled: [Duration; 3],
    first: f32,
    /// What it read, for calls that keep their memory.
    _arrays: Vec<Array<f32>>,
    result: Vec<Array<f32>>,
    outputs: Vec<Output>,
}

impl Call {
    /// What is told of later calls.
    const PHASES: [&str; 5] = ["call", "upload", "record", "dispatch", "readback"];

    /// Makes the call.
    fn of(row: Row, gpu: &Device, wgpu: &Wgpu, values: &[Vec<f32>]) -> kiln::Result<Self> {
        let known = wgpu.compile_log().len();
        let zero = Duration::ZERO;
        let (mut planned, mut dispatch, mut readback) = (zero, zero, zero);
        let (mut arrays, mut result, mut outputs, mut first) = (Vec::new(), Vec::new(), Vec::new(), f32::NAN);
        let mut at = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            now - std::mem::replace(&mut at, now)
        };
        let upload;
        if row == Row::Program {
            let inputs = Inputs::upload(gpu)?;
            upload = lap();
            for statement in STATEMENTS {
                let output = statement(&inputs)?;
                planned += lap();
                gpu.synchronize().wait()?;
                dispatch += lap();
                output.first()?;
                readback += lap();
                outputs.push(output);
            }
        } else {
            arrays = row.upload(gpu, values)?;
            upload = lap();
            let array = row.compute(gpu, &arrays)?;
            planned = lap();
            gpu.synchronize().wait()?;
            dispatch = lap();
            first = program::first(&array)?;
            readback = lap();
            result.push(array);
        }
        let log = wgpu.compile_log();
        let compiled = log.iter().skip(known).fold([zero; 3], |[render, module, pipeline], kernel| {
            [render + kernel.render, module + kernel.module, pipeline + kernel.pipeline]
        });
        Ok(Self { row, upload, planned, dispatch, readback, compiled, first, _arrays: arrays, result, outputs })
    }

    /// Its phases. Where other threads compile, the call's own share of compiling is not known, so all of it is in
    /// `record`.
    fn tell(&self, column: Column, figures: &mut Figures) {
        figures.time("upload", self.upload);
        let mut record = self.planned;
        if !column.warms() {
            for (name, time) in ["render", "naga", "pipeline"].into_iter().zip(self.compiled) {
                figures.time(name, time);
                // Kernels of one call are compiled side by side, so their times may be longer than the call's.
                record = record.saturating_sub(time);
            }
        }
        figures.time("record", record);
        figures.time("dispatch", self.dispatch);
        figures.time("readback", self.readback);
    }

    /// Compares the whole result with what must come out.
    fn check(&self, values: &[Vec<f32>]) -> Result<(), Box<dyn Error>> {
        if self.row == Row::Program {
            return Ok(program::check(&self.outputs)?);
        }
        let expected = self.row.expected(values);
        check(&[self.first], &expected[..1])?;
        for array in &self.result {
            check(array.to_host()?.as_slice(), &expected)?;
        }
        Ok(())
    }
}
