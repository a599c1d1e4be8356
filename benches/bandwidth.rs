//! Bytes per second of each operation, beside what the memory gives and what a peer does.
//!
//! `cargo bench --bench bandwidth [-- --backend NAME]... [--n ELEMENTS]`; README.md says how to read it.

mod ceiling;
mod devices;
mod peers;
mod plain;
mod timing;

use std::error::Error;
use std::process::ExitCode;

use ceiling::Ceiling;
use kiln::DeviceKind;
use kiln::prelude::*;
use peers::Peers;

fn main() -> ExitCode {
    devices::run("bandwidth", measure)
}

/// An operation: its name, the bytes that it must move per element, whether it only reads, and how to record it once.
struct Row<'a> {
    name: &'static str,
    bytes: f64,
    reads: bool,
    square: bool,
    record: Box<dyn Fn() -> kiln::Result<()> + 'a>,
}

fn measure(gpu: &Device, wanted: Option<usize>) -> Result<(), Box<dyn Error>> {
    let info = gpu.info();
    let usual = if info.kind == DeviceKind::DiscreteGpu { 1 << 28 } else { 1 << 24 };
    let most = usize::try_from(gpu.caps().max_array_bytes / 4)?;
    let n = wanted.unwrap_or(usual).min(most).max(4) / 4 * 4;
    let side = n.isqrt();
    println!("{info}; driver {}; f32", info.driver);
    println!(
        "{:<14} {:<7} {:>10} {:>9} {:>8}  {:<13} ratios to the peer",
        "name", "backend", "n", "ms", "GB/s", "share"
    );

    let values = values(n);
    let peers = if info.kind == DeviceKind::Cpu { Some(Peers::new(&values, side)?) } else { None };
    let (copy, read) = match &peers {
        Some(peers) => {
            (timing::seconds::<String>(many(|| peers.copy()))?, timing::seconds::<String>(many(|| peers.read()))?)
        }
        None => {
            let ceiling = Ceiling::open(info, &values)?;
            (timing::seconds(ceiling.copy())?, timing::seconds(ceiling.read())?)
        }
    };
    let speed = |name: &str, count: usize, bytes: f64, seconds: f64| {
        let rate = bytes * count as f64 / seconds / 1e9;
        print!("{name:<14} {:<7} {count:>10} {:>9.3} {rate:>8.2}", info.backend, seconds * 1e3);
        rate
    };
    let copied = speed("plain copy", n, 8.0, copy);
    println!();
    let read_only = speed("plain read", n, 4.0, read);
    println!();

    let x = gpu.array(&values, n)?;
    let others = [(&x * 0.5).eval()?, (&x + 1.0).eval()?, (-&x).eval()?];
    let square = x.slice(s![..isize::try_from(side * side)?])?.reshape([side, side])?;
    for row in rows(&x, &others, &square) {
        let repeat = |count: usize| -> kiln::Result<()> {
            (0..count).try_for_each(|_| (row.record)())?;
            gpu.synchronize().wait()
        };
        let count = if row.square { side * side } else { n };
        let result = match peers.as_ref().map(|peers| peers.spellings(row.name)) {
            Some(spellings) if !spellings.is_empty() => against(repeat, &spellings),
            _ => timing::seconds(repeat).map(|seconds| (seconds, String::new())),
        };
        match result {
            Ok((seconds, peer)) => {
                let rate = speed(row.name, count, row.bytes, seconds);
                let (of, ceiling) = if row.reads { ("read", read_only) } else { ("copy", copied) };
                println!("  {:.2} of {of:<5} {peer}", rate / ceiling);
            }
            Err(error) => println!("{:<14} {:<7} {count:>10} {error}", row.name, info.backend),
        }
    }
    println!();
    Ok(())
}

/// Work on the host, so many times.
fn many<E>(once: impl Fn()) -> impl FnMut(usize) -> Result<(), E> {
    move |count| {
        (0..count).for_each(|_| once());
        Ok(())
    }
}

/// Our seconds, and the ratio to each spelling of the peer.
fn against(
    mut ours: impl FnMut(usize) -> kiln::Result<()>,
    spellings: &[peers::Spelling<'_>],
) -> kiln::Result<(f64, String)> {
    let mut seconds = Vec::new();
    let mut text = Vec::new();
    for (name, once) in spellings {
        let (our, their, ratio) = versus(&mut ours, many(once))?;
        seconds.push(our);
        text.push(format!("{ratio:>5.2} ndarray {name} ({:.3} ms)", their * 1e3));
    }
    Ok((timing::median(seconds), text.join(", ")))
}

/// Seconds of one time of each closure, whose rounds take turns, and the median of the ratios of the two.
fn versus<E>(
    mut ours: impl FnMut(usize) -> Result<(), E>,
    mut theirs: impl FnMut(usize) -> Result<(), E>,
) -> Result<(f64, f64, f64), E> {
    let counts = (timing::warm_up(&mut ours)?, timing::warm_up(&mut theirs)?);
    let mut rounds = Vec::new();
    for _ in 0..timing::ROUNDS {
        rounds.push((timing::round(&mut ours, counts.0)?, timing::round(&mut theirs, counts.1)?));
    }
    let each = |figure: fn(&(f64, f64)) -> f64| timing::median(rounds.iter().map(figure).collect());
    Ok((each(|&(a, _)| a), each(|&(_, b)| b), each(|&(a, b)| b / a)))
}

fn rows<'a>(x: &'a Array<f32>, others: &'a [Array<f32>; 3], square: &'a Array<f32>) -> Vec<Row<'a>> {
    let [b, c, d] = others;
    let row = |name, words: u8, record| {
        let bytes = 4.0 * f64::from(words);
        Row { name, bytes, reads: words == 1, square: false, record }
    };
    let on_square = |name, words, record| Row { square: true, ..row(name, words, record) };
    vec![
        row("copy", 2, Box::new(move || x.copy().map(drop))),
        row("map", 2, Box::new(move || (x * 2.0 + 1.0).eval().map(drop))),
        row("fused", 5, Box::new(move || ((x - b) * c + d).eval().map(drop))),
        row("exp", 2, Box::new(move || x.exp().eval().map(drop))),
        row("sin", 2, Box::new(move || x.sin().eval().map(drop))),
        row("tanh", 2, Box::new(move || x.tanh().eval().map(drop))),
        row("sum", 1, Box::new(move || x.sum(..).map(drop))),
        row("max", 1, Box::new(move || x.max(..).map(drop))),
        on_square("sum axis 0", 1, Box::new(move || square.sum(0).map(drop))),
        on_square("sum axis 1", 1, Box::new(move || square.sum(1).map(drop))),
        row("cumsum", 2, Box::new(move || x.cumsum(0).map(drop))),
        on_square("cumsum axis 0", 2, Box::new(move || square.cumsum(0).map(drop))),
        on_square("cumsum axis 1", 2, Box::new(move || square.cumsum(1).map(drop))),
    ]
}

/// Numbers between 0 and 1 without a pattern that a memory could like.
fn values(n: usize) -> Vec<f32> {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 16_777_216.0
    };
    (0..n).map(|_| next()).collect()
}
