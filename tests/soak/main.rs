//! Random programs against an oracle of plain loops, on every backend, for as long as one likes.
//!
//! A program is one to three statements: views, an expression, and a reduction, a scan or neither; now and then with
//! something that must be an error. A seed `STRUCTURE:DRAW` decides it. A failure prints the seed and the program as
//! text; `KILN_SOAK_SEED` runs it again.
//!
//! | variable | what it does |
//! | --- | --- |
//! | `KILN_SOAK_SECONDS` | seconds for each backend, 3 unless given; the kept seeds run first, however long they take |
//! | `KILN_SOAK_SEED` | `7`: the structures from 7 on; `7:0`: that program alone. Without it, seeds come from the clock |
//! | `KILN_TEST_BACKENDS`, `KILN_TEST_REQUIRE`, `KILN_TEST_REPORT` | as in the suite |

#![allow(dead_code, reason = "the suite's harness has more to do there")]
#![expect(clippy::float_cmp, reason = "results that must be exact are compared exactly")]
#![allow(clippy::cast_possible_truncation, reason = "test data is made from small or wrapping numbers")]
#![allow(clippy::cast_precision_loss, reason = "test data is made from small numbers")]

mod check;
mod draw;
#[path = "../suite/harness.rs"]
mod harness;
mod library;
mod oracle;
mod program;
#[path = "../suite/random.rs"]
mod random;
mod scalars;
mod text;
mod watchdog;

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kiln::Device;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::check::{Counts, Seed, run};
use crate::harness::{Tested, backends, missing};
use crate::watchdog::Watchdog;

/// Draws of one structure before the next.
const DRAWS: u64 = 16;
/// Failures that are shown before a backend is given up.
const SHOWN: usize = 4;

/// What the variables ask for.
enum Request {
    One(Seed),
    From { structure: u64, seconds: u64 },
}

impl Request {
    fn of_environment() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let number = |name: &str, text: &str| -> u64 {
            text.parse().unwrap_or_else(|error| panic!("{name} is {text:?}: {error}"))
        };
        let seconds = variable("KILN_SOAK_SECONDS").map_or(3, |text| number("KILN_SOAK_SECONDS", &text));
        let Some(text) = variable("KILN_SOAK_SEED") else {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
            return Self::From { structure: u64::from(now.subsec_nanos()) << 20, seconds };
        };
        match text.split_once(':') {
            Some(_) => Self::One(seed(&text)),
            None => Self::From { structure: number("KILN_SOAK_SEED", &text), seconds },
        }
    }
}

fn seed(text: &str) -> Seed {
    let parts = text.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let (structure, draw) = parts.unwrap_or_else(|| panic!("a seed is STRUCTURE:DRAW, not {text:?}"));
    Seed { structure, draw }
}

/// The seeds that found something, and those that exercise every family.
fn kept() -> Vec<Seed> {
    let lines = include_str!("seeds.txt").lines().filter_map(|line| line.split('#').next());
    lines.map(str::trim).filter(|line| !line.is_empty()).map(seed).collect()
}

fn compiled(device: &Device) -> Option<u64> {
    #[cfg(feature = "wgpu")]
    return kiln::wgpu::backend(device).map(|backend| backend.counters().kernels_compiled);
    #[cfg(not(feature = "wgpu"))]
    return None;
}

/// Whether floats of any value must have the bits of plain Rust. Only Metal, DX12, browsers, and Vulkan's drivers with
/// subnormals may compute them in another way: elsewhere the device's own answer would hide what is looked for.
fn is_exact(device: &Device) -> bool {
    let rules = device.float_rules().expect("the device computes");
    match device.info().backend {
        "cpu" => true,
        "vulkan" => rules.subnormals,
        _ => rules.all(),
    }
}

/// Soaks one backend; returns the number of failures.
fn soak(name: &str, device: &Device, request: &Request, watchdog: &Watchdog) -> usize {
    let exact = is_exact(device);
    let (mut counts, failures, start) = (Counts::default(), Cell::new(0), Instant::now());
    let one = |seed: Seed, counts: &mut Counts| {
        if let Err(what) = run(device, exact, seed, watchdog, counts) {
            println!("soak: FAILED on {name}: KILN_SOAK_SEED={seed} KILN_TEST_BACKENDS={name}\n{what}\n");
            failures.set(failures.get() + 1);
            return false;
        }
        true
    };
    match *request {
        Request::One(seed) => {
            one(seed, &mut counts);
        }
        Request::From { structure, seconds } => {
            for seed in kept() {
                one(seed, &mut counts);
            }
            let missing = counts.missing();
            if exact && failures.get() == 0 && !missing.is_empty() {
                println!("soak: FAILED on {name}: no program of seeds.txt has {}", missing.join(", "));
                failures.set(1);
            }
            let end = start + Duration::from_secs(seconds);
            let mut structures = structure..;
            // After a failure the same structure would fail again.
            while let Some(structure) = structures.next().filter(|_| Instant::now() < end && failures.get() < SHOWN) {
                (0..DRAWS).all(|draw| Instant::now() < end && one(Seed { structure, draw }, &mut counts));
            }
        }
    }
    let list = |pairs: Vec<String>| pairs.join(", ");
    let families = list(counts.families.iter().map(|(name, count)| format!("{name} {count}")).collect());
    let errors = list(counts.errors.iter().map(|(kind, count)| format!("{kind:?} {count}")).collect());
    let kernels = compiled(device).map_or_else(String::new, |count| format!(", {count} kernels"));
    let rules = if exact { "all float rules" } else { "not all float rules: whole numbers only" };
    println!("soak: {name}: {} programs in {:.1} s{kernels}, {rules}", counts.programs, start.elapsed().as_secs_f32());
    println!("soak: {name}: statements: {families}");
    println!("soak: {name}: errors expected and met: {errors}; only the shape compared: {}", counts.shapes_only);
    failures.get()
}

fn programs() -> Result<(), Failed> {
    let request = Request::of_environment();
    match request {
        Request::One(seed) => println!("soak: program {seed}"),
        Request::From { structure, .. } => println!("soak: structures from {structure} on"),
    }
    let watchdog = Watchdog::start();
    // The text of a failure has a panic's words, so the usual lines would only stand in its way.
    std::panic::set_hook(Box::new(|_| {}));
    let mut failures = missing();
    for Tested { name, device } in backends() {
        if let Ok(device) = device {
            let count = soak(name, device, &request, &watchdog);
            failures.extend((count > 0).then(|| format!("{count} failures on {name}")));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}

fn main() {
    libtest_mimic::run(&Arguments::from_args(), vec![Trial::test("programs", programs)]).exit()
}
