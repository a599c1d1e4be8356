//! What children do. A job is a function here; what it needs comes in variables, what it found leaves as facts.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kiln::prelude::*;
use kiln::{Options, Report, Result, WarmUp};

use crate::embedded;
use crate::files;
use crate::kernels::{self, Inputs, Numbered};
use crate::process::Random;

/// The test that runs a job.
pub(crate) const TEST: &str = "child::a_job_where_one_is_asked_for";

/// The variable that names the job.
pub(crate) const MARK: &str = "KILN_TEST_CHILD";

/// What is in every line that Kiln logs.
pub(crate) const LOGGED: &str = "] kiln: ";

#[test]
fn a_job_where_one_is_asked_for() {
    // The harness has begun a line.
    println!();
    run();
}

/// Does the job that is asked for, if one is.
pub(crate) fn run() {
    let Ok(job) = std::env::var(MARK) else { return };
    env_logger::Builder::new().filter_level("warn".parse().expect("a level")).init();
    match job.as_str() {
        "kernels" => run_kernels(),
        "damage" => damage(),
        "failed write" => failed_write(),
        "ending" => ending(),
        "threads" => threads(),
        "first" => first(),
        "large" => large(),
        "rehearsals" => rehearsals(),
        "rehearsed panic" => rehearsed_panic(),
        "cancelled early" => cancelled_early(),
        "no adapter" => no_adapter(),
        "settings" => settings(),
        "locals" => locals(),
        _ => panic!("there is no job {job}"),
    }
    .unwrap_or_else(|error| panic!("the job {job} failed: {error}"));
    fact("done", 1);
}

pub(crate) fn fact(name: &str, value: impl TryInto<u64>) {
    println!("fact {name} {}", value.try_into().unwrap_or(u64::MAX));
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str, usual: usize) -> usize {
    variable(name).map_or(usual, |value| value.parse().expect("a number"))
}

fn wanted(name: &str) -> Vec<Numbered> {
    kernels::list(&variable(name).unwrap_or_default())
}

/// The counters of a device, as facts.
fn count(device: &Device) {
    let Some(backend) = kiln::wgpu::backend(device) else { return };
    let counters = backend.counters();
    fact("kernels_compiled", counters.kernels_compiled);
    fact("kernels_joined", counters.kernels_joined);
    fact("keeps", u64::from(kiln::cache::counters(device).is_some()));
    if let Some(counters) = kiln::cache::counters(device) {
        fact("manifest_kernels", counters.manifest_kernels);
        fact("text_hits", counters.text_hits);
        fact("text_misses", counters.text_misses);
        fact("driver_hits", counters.driver_hits);
        fact("driver_misses", counters.driver_misses);
        fact("rejected", counters.rejected);
        fact("evicted", counters.evicted);
    }
}

fn count_report(report: &Report) {
    let failed = report.kernels.iter().filter(|kernel| kernel.error.is_some()).count();
    fact("warmed", report.kernels.len());
    fact("warmed_badly", failed);
    fact("cancelled", report.cancelled);
    for kernel in report.kernels.iter().filter(|kernel| kernel.error.is_some()) {
        println!("{}: {:?}", kernel.kernel, kernel.error);
    }
}

/// Opens a device, or several, and runs kernels.
fn run_kernels() -> Result<()> {
    let kernels = wanted("JOB_KERNELS");
    for _ in 1..number("JOB_OPENS", 1) {
        Inputs::new(&kiln::open()?)?.check(&kernels)?;
    }
    let device = match variable("JOB_FEATURES") {
        Some(features) => embedded::open(&features)?,
        None => kiln::open()?,
    };
    if let Some(path) = variable("JOB_IMPORT") {
        match kiln::cache::import(&device, &path) {
            Ok(imported) => fact("imported", imported),
            Err(error) => println!("refused: {error}"),
        }
    }
    if number("JOB_WARM", 0) > 0 {
        count_report(&device.warm_up().wait());
        let compiled = kiln::wgpu::backend(&device).map_or(0, |backend| backend.counters().kernels_compiled);
        fact("compiled_by_warm_up", compiled);
    }
    let inputs = Inputs::new(&device)?;
    inputs.check(&kernels)?;
    fact("checked", kernels.len());
    // Compiled and kept, but not computed, which takes a software GPU long.
    inputs.launch_all(&wanted("JOB_UNREAD"))?;
    if let Some(path) = variable("JOB_EXPORT") {
        fact("exported", kiln::cache::export(&device, path)?);
    }
    count(&device);
    Ok(())
}

/// A write fails, as if by another program's doing; then the folder is as it was, and more kernels come.
fn failed_write() -> Result<()> {
    let folder = variable("KILN_CACHE_DIR").expect("a folder");
    let folder = Path::new(&folder);
    let device = kiln::open()?;
    let inputs = Inputs::new(&device)?;
    // An export saves first.
    let save = || kiln::cache::export(&device, folder.join("export"));
    inputs.check(&kernels::list("0"))?;
    save()?;
    fact("before", files::entries(folder).len());
    let (environment, away) = (files::environment(folder), folder.join("away"));
    fs::rename(&environment, &away).expect("it can be renamed");
    files::write(&environment, b"somebody's");
    let kernels = wanted("JOB_KERNELS");
    inputs.check(&kernels[..1])?;
    let _ = save();
    fs::remove_file(&environment).expect("it is there");
    fs::rename(&away, &environment).expect("it can be renamed");
    let modified = || fs::metadata(&environment).and_then(|meta| meta.modified()).expect("a time");
    let before = modified();
    for kernel in &kernels[1..] {
        inputs.check(&[*kernel])?;
        save()?;
    }
    fact("after", files::entries(folder).len());
    fact("touched", modified() != before);
    Ok(())
}

/// Damages all files of the cache at random, again and again, and computes each time.
fn damage() -> Result<()> {
    let folder = variable("KILN_CACHE_DIR").expect("a folder");
    let (kernels, rounds) = (wanted("JOB_KERNELS"), number("JOB_ROUNDS", 10));
    let mut random = Random::new(number("JOB_SEED", 0) as u64);
    let mut rejected = 0;
    for round in 0..rounds {
        let device = kiln::open()?;
        let inputs = Inputs::new(&device)?;
        inputs.check(&kernels)?;
        inputs.launch_all(&wanted("JOB_UNREAD"))?;
        drop(inputs);
        rejected += kiln::cache::counters(&device).map_or(0, |counters| counters.rejected);
        drop(device);
        if round + 1 < rounds {
            files::damage(Path::new(&folder), &mut random);
        }
    }
    fact("rejected", rejected);
    Ok(())
}

/// Ends in the middle of a warm-up.
fn ending() -> Result<()> {
    let (kernels, way) = (wanted("JOB_KERNELS"), variable("JOB_WAY").expect("a way to end"));
    let rehearsed = move |device: &Device| {
        let inputs = Inputs::new(device)?;
        inputs.launch_all(&kernels)
    };
    // Half of the processes end while the device may still be opened.
    let (device, warming): (Option<Device>, WarmUp) = if number("JOB_OPENED", 1) == 1 {
        let device = kiln::open()?;
        let warming = device.rehearse(rehearsed)?;
        (Some(device), warming)
    } else {
        (None, kiln::rehearse(rehearsed))
    };
    std::thread::sleep(Duration::from_millis(number("JOB_WAIT", 0) as u64));
    let device = if way == "upload" && device.is_none() { Some(kiln::open()?) } else { device };
    let _uploaded = match &device {
        // Parts of it are submitted before anything asks for them.
        Some(device) if way == "upload" => Some(device.array(&vec![1f32; 1 << 23], 1 << 23)?),
        _ => None,
    };
    fact("done", 1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    fact("ending", now.as_micros());
    match way.as_str() {
        "return" => {
            // A static that is never dropped, as many programs have.
            std::mem::forget(device);
        }
        "exit" | "upload" => std::process::exit(0),
        "panic" => panic!("as asked"),
        "drop" => drop(device),
        "cancel" => {
            warming.cancel();
            let _ = warming.wait();
        }
        _ => panic!("no such way: {way}"),
    }
    Ok(())
}

/// The thread keeps the last handles in a variable of its own, and computes when that goes.
fn locals() -> Result<()> {
    thread_local!(static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) });

    struct Kept(Device, Array<i32>);

    impl Drop for Kept {
        fn drop(&mut self) {
            let total = || self.0.array(&[1, 2, 3], 3)?.sum(..).and_then(|sum| (&self.1 + &sum).sum(..)?.item());
            fact("total", total().expect("a thread that ends can compute").cast_unsigned());
        }
    }

    let device = if variable("JOB_FIRST").is_some() { KEPT.with(|_| kiln::open()) } else { kiln::open() }?;
    let x = device.full(7, 4)?;
    assert_eq!(x.sum(..)?.item()?, 28);
    KEPT.set(Some(Kept(device, x)));
    if variable("JOB_WAY").as_deref() == Some("exit") {
        fact("done", 1);
        std::process::exit(0);
    }
    Ok(())
}

/// Many threads ask for the same kernels.
fn threads() -> Result<()> {
    let (kernels, threads) = (wanted("JOB_KERNELS"), number("JOB_THREADS", 64));
    let device = kiln::open()?;
    let inputs = Inputs::new(&device)?;
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|at| {
                let (inputs, barrier) = (&inputs, &barrier);
                let mut kernels = kernels.clone();
                // Half in the same order, which makes them meet; half each in its own.
                if at % 2 == 1 {
                    let places = at % kernels.len().max(1);
                    kernels.rotate_left(places);
                }
                scope.spawn(move || {
                    barrier.wait();
                    inputs.check(&kernels)
                })
            })
            .collect();
        all.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    count(&device);
    Ok(())
}

/// The first operations during a warm-up: one whose kernel is on the list, and one whose kernel is not.
fn first() -> Result<()> {
    let listed = wanted("JOB_KERNELS");
    let other = wanted("JOB_OTHER");
    let device = kiln::open()?;
    let inputs = Inputs::new(&device)?;
    device.synchronize().wait()?;
    let list = listed.clone();
    let start = Instant::now();
    let warming = device.rehearse(|device| {
        let inputs = Inputs::new(device)?;
        inputs.launch_all(&list)
    })?;
    fact("start_micros", start.elapsed().as_micros());
    // The last of the list: a call that waited for its turn would wait for all.
    inputs.check(&listed[listed.len() - 1..])?;
    fact("listed_micros", start.elapsed().as_micros());
    inputs.check(&other)?;
    fact("other_micros", start.elapsed().as_micros());
    let progress = warming.progress();
    fact("done_by_then", progress.done);
    fact("all", progress.total);
    count_report(&warming.wait());
    fact("list_micros", start.elapsed().as_micros());
    // What the device warms up by itself, where it does.
    let usual = if number("KILN_PREWARM", 0) > 0 { device.warm_up().wait().kernels.len() } else { 0 };
    fact("usual", usual);
    count(&device);
    Ok(())
}

/// Launches of a compiled kernel while another thread compiles a large one.
fn large() -> Result<()> {
    let device = kiln::open()?;
    let inputs = Inputs::new(&device)?;
    let small = kernels::list("5")[0];
    inputs.check(&[small])?;
    let launches = |until: &mut dyn FnMut(usize) -> bool| -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        while !until(times.len()) {
            let start = Instant::now();
            let array = inputs.launch(small)?;
            times.push(start.elapsed());
            drop(array);
            std::thread::sleep(Duration::from_micros(200));
        }
        times.sort();
        Ok(times)
    };
    let idle = launches(&mut |count| count == 500)?;
    let (busy, compile) = std::thread::scope(|scope| {
        let start = Instant::now();
        let inputs = &inputs;
        let large = scope.spawn(move || {
            let launched = inputs.large(number("JOB_OPERATORS", 500)).eval();
            (start.elapsed(), launched)
        });
        let busy = launches(&mut |count| large.is_finished() && count > 0)?;
        let (time, launched) = large.join().expect("no panic");
        launched?;
        Ok::<_, kiln::Error>((busy, time))
    })?;
    let high = |times: &[Duration]| times[times.len() * 99 / 100].as_micros();
    fact("compile_micros", compile.as_micros());
    fact("launches", busy.len());
    fact("idle_p99_micros", high(&idle));
    fact("busy_p99_micros", high(&busy));
    fact("busy_max_micros", busy[busy.len() - 1].as_micros());
    // Eight threads, eight kernels each.
    let start = Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|at| {
                let inputs = &inputs;
                scope.spawn(move || inputs.launch_all(&kernels::list(&format!("{}..{}", 100 + at * 8, 108 + at * 8))))
            })
            .collect();
        all.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    fact("together_micros", start.elapsed().as_micros());
    let serial = kiln::wgpu::backend(&device).map_or(Vec::new(), kiln::wgpu::Wgpu::compile_log);
    let serial: Duration = serial.iter().rev().take(64).map(|times| times.render + times.module + times.pipeline).sum();
    fact("apart_micros", serial.as_micros());
    count(&device);
    Ok(())
}

/// Two rehearsals, the second while the first is under way; then two more once the device is taken.
fn rehearsals() -> Result<()> {
    let rehearse = |text: &'static str| {
        kiln::rehearse(move |device| {
            let inputs = Inputs::new(device)?;
            inputs.launch_all(&kernels::list(text))
        })
    };
    let first = rehearse("200..220");
    while first.progress().done < number("JOB_DONE", 1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let second = rehearse("300..305");
    let report = second.wait();
    fact("warmed", report.kernels.iter().filter(|kernel| kernel.error.is_none()).count());
    fact("left", second.progress().total - second.progress().done);
    let device = kiln::open()?;
    let compiled =
        |device: &Device| kiln::wgpu::backend(device).map_or(0, |backend| backend.counters().kernels_compiled);
    let before = compiled(&device);
    Inputs::new(&device)?.launch_all(&kernels::list("200..220,300..305"))?;
    fact("compiled_later", compiled(&device) - before);
    count(&device);
    Ok(())
}

/// Rehearsed code that panics.
fn rehearsed_panic() -> Result<()> {
    let report = kiln::rehearse(|_| panic!("as asked")).wait();
    fact("told", report.error.is_some());
    println!("{:?}", report.error);
    let device = kiln::open()?;
    Inputs::new(&device)?.check(&kernels::list("1"))?;
    count(&device);
    Ok(())
}

/// A warm-up that is cancelled before the device is open.
fn cancelled_early() -> Result<()> {
    let warming = kiln::warm_up();
    warming.cancel();
    let report = warming.wait();
    count_report(&report);
    let device = kiln::open()?;
    let compiled = || kiln::wgpu::backend(&device).map_or(0, |backend| backend.counters().kernels_compiled);
    let at_once = compiled();
    std::thread::sleep(Duration::from_millis(300));
    fact("compiled_afterwards", compiled() - at_once);
    Inputs::new(&device)?.check(&kernels::list("1"))?;
    Ok(())
}

/// Every way in where there is no adapter.
fn no_adapter() -> Result<()> {
    let asked = variable("KILN_BACKEND").is_some_and(|backend| backend != "cpu");
    let warmed = kiln::warm_up();
    let rehearsed = kiln::rehearse(|device| Inputs::new(device)?.launch(kernels::list("1")[0]).map(drop));
    for report in [warmed.wait(), rehearsed.wait()] {
        assert_eq!(report.error.is_some(), asked, "{report:?}");
    }
    let opened = [kiln::open(), kiln::open(), pollster::block_on(kiln::open_async()), Options::from_env().open()];
    for opened in opened {
        match opened {
            Ok(device) => {
                assert!(!asked && device.info().backend == "cpu", "{}", device.info());
                assert!(device.warm_up().wait().error.is_none());
                let inputs = Inputs::new(&device)?;
                inputs.check(&kernels::list("1,s2,c3"))?;
                let rehearsed =
                    device.rehearse(|device| Inputs::new(device)?.launch(kernels::list("1")[0]).map(drop))?;
                assert!(rehearsed.wait().error.is_none());
            }
            Err(error) => {
                println!("error: {error}");
                assert!(asked && error.to_string().contains("no adapter"), "{error}");
            }
        }
    }
    assert_eq!(kiln::devices().len(), 1, "the CPU alone");
    Ok(())
}

/// What the environment says that it should not; or that it is fine.
fn settings() -> Result<()> {
    let report = kiln::warm_up().wait();
    let opened = kiln::open();
    assert_eq!(report.error.is_some(), opened.is_err(), "{report:?}");
    assert_eq!(kiln::cache::folder(Options::from_env()).is_err(), opened.is_err());
    match opened {
        Ok(device) => {
            Inputs::new(&device)?.check(&kernels::list("1,2"))?;
            count(&device);
        }
        Err(error) => println!("not opened: {error}"),
    }
    Ok(())
}
