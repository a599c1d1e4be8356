//! Cases L04, L08, L12, L20: memory that runs out, that is kept, and that is given back.
//!
//! What a process may have is the process's own, so most cases run in children: this binary again, with one test, which
//! does the job that a variable names.

use std::cell::RefCell;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln::prelude::*;
use kiln::{DeviceKind, Error, ErrorKind, Options, Pending, Result};

use crate::harness::{Tested, backends, long, on_each_backend, report, takes};
use crate::random::Rng;

/// The variable that names a child's job.
const JOB: &str = "KILN_TEST_MEMORY_JOB";

/// What a child that did its job prints.
const DONE: &str = "the job is done";

/// Does a job in a child for each backend that runs, on that backend; it must end well.
fn in_children(job: &str, also: &[(&str, &str)]) {
    for Tested { name, device } in backends() {
        if let (Ok(device), true) = (device, *name != "metal") {
            let output = child(job, name, &[&[("KILN_BACKEND", device.info().backend)], also].concat());
            assert_done(&output, &format!("{job} on {name}"));
        }
    }
}

fn child(job: &str, backend: &str, also: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("the test's own path"));
    command.args(["--exact", "cases::l_memory::a_job_where_one_is_asked_for", "--nocapture", "--test-threads=1"]);
    command.env(JOB, job).env("KILN_TEST_BACKENDS", backend).env_remove("KILN_TEST_REPORT");
    command.env_remove("KILN_TEST_REQUIRE").env("GALLIVM_PERF", "nopt").envs(also.iter().copied());
    command.output().expect("the test starts itself")
}

#[track_caller]
fn assert_done(output: &Output, what: &str) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let whole = output.status.success() && text[0].contains(DONE);
    assert!(whole, "{what} ended with {}\n{}", output.status, text.join("\n"));
}

#[test]
fn a_job_where_one_is_asked_for() {
    let Ok(job) = std::env::var(JOB) else { return };
    match job.as_str() {
        "gigabytes" => on_each_backend(|device| gigabytes(device).expect("what fits is computed")),
        "locals" => locals(),
        "random sizes" => on_each_backend(|device| random_sizes(device).expect("small arrays are made")),
        "rounds" => on_each_backend(|_| rounds().expect("a device opens again")),
        "full" => on_each_backend(|device| memory_runs_out(device).expect("what fits is computed")),
        _ => panic!("no job is called {job}"),
    }
    println!("{DONE}");
}

/// A number of kilobytes that the system knows of this process, as bytes.
fn of_this_process(what: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Allows this process so many bytes in all; `false` where that cannot be done.
fn allow(bytes: u64) -> bool {
    let mut command = Command::new("prlimit");
    command.arg(format!("--pid={}", std::process::id())).arg(format!("--as={bytes}"));
    command.status().is_ok_and(|status| status.success())
}

#[track_caller]
fn assert_no_memory<T>(result: Result<T>, what: &str) {
    match result {
        Ok(_) => panic!("{what} needs more memory than there is"),
        Err(error) => assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }), "{what}: {error}"),
    }
}

/// An array that the process can hold once, and everything that would hold it, or most of it, a second time.
fn memory_runs_out(device: &Device) -> Result<()> {
    const N: usize = 24 << 20;
    const ROWS: usize = 1 << 10;
    let x = device.full(1f32, [ROWS, N / ROWS])?;
    let truths = device.full(true, 4 * N)?;
    let few = device.full(2i32, 1000)?;
    // Kernels are compiled, and threads started, while there is memory.
    let small = device.full(1f32, [ROWS, 64])?;
    small.sum(0)?.to_host()?;
    small.cumsum(0)?.to_host()?;
    let values = vec![1f32; N];
    (&few + 1).eval()?.to_host()?;
    device.synchronize().wait()?;
    let now = of_this_process("VmSize").expect("the system knows");
    assert!(allow(now + N as u64 * 2), "the process's memory can be limited");

    for _ in 0..3 {
        assert_no_memory(x.to_host(), "a read");
        assert_no_memory(pollster::block_on(x.read()), "an awaited read");
        assert_no_memory(truths.to_host(), "a read of truth values");
        assert_no_memory(x.transpose().to_host(), "a read of a view");
        assert_no_memory(device.array(&values, N), "an upload");
        assert_no_memory(device.full(0i32, N), "an array");
        assert_no_memory((&x + 1.0).eval(), "a result");
        assert_no_memory(x.cumsum(0), "running sums");
        assert_no_memory(x.cumsum(1), "running sums along lines");
        assert_eq!((&few + 1).sum(..)?.item()?, 3000, "what fits is still computed");
    }
    drop((values, truths));
    assert_eq!(x.to_host()?.as_slice().len(), N, "there is room again");
    Ok(())
}

/// The input as it was reported.
fn gigabytes(device: &Device) -> Result<()> {
    const N: usize = 500_000_000;
    if !takes(device, N) {
        return Ok(());
    }
    assert!(allow(3 << 30), "the process's memory can be limited");
    let x = device.full(1f32, N)?;
    assert_no_memory(x.to_host(), "a read");
    assert_eq!(x.slice(s![7..9])?.to_host()?.as_slice(), [1.0, 1.0]);
    Ok(())
}

#[test]
fn l08_memory_that_runs_out_is_an_error_everywhere() {
    if !cfg!(target_os = "linux") || Command::new("prlimit").arg("--version").output().is_err() {
        return report("not run: case L08 (nothing here limits a process's memory)");
    }
    in_children("full", &[]);
    if long() {
        in_children("gigabytes", &[]);
    } else {
        report("not run: case L08 with 2 GB (memory; KILN_TEST_LONG=1 runs it)");
    }
}

/// Arrays of random sizes, one at a time, and what the process keeps of them.
fn random_sizes(device: &Device) -> Result<()> {
    const MIB: u64 = 1 << 20;
    let resident = || of_this_process("VmRSS").expect("the system knows");
    let mut rng = Rng(12);
    let mut one = |rounds: usize| -> Result<()> {
        for _ in 0..rounds {
            let x = device.zeros::<f32>((256 << 10) + rng.below(768 << 10))?;
            drop(x);
        }
        device.synchronize().wait()
    };
    one(20)?;
    device.trim()?;
    let before = resident();
    one(10_000)?;
    let kept = resident().saturating_sub(before);
    // Twice the most that was in use, 16 MiB at least, and what the allocator does not give back of as much.
    let most = if device.info().kind == DeviceKind::Cpu { 40 * MIB } else { 280 * MIB };
    assert!(kept <= most, "{kept} bytes are kept of arrays of 4 MiB at most");
    device.trim()?;
    let left = resident().saturating_sub(before);
    assert!(left <= 16 * MIB, "of {kept} bytes kept, {left} are left after a trim");

    // A hundred at once; how much the process has says little here, since drivers and allocators keep some, too.
    let many = || (0..100).map(|_| device.full(1i32, 256 << 10)).collect::<Result<Vec<_>>>();
    drop(many()?);
    device.synchronize().wait()?;
    let x = device.array(&[1, 2, 3], 3)?;
    #[cfg(feature = "wgpu")]
    if let Some(gpu) = device.backend_as::<kiln::wgpu::Wgpu>() {
        assert!(gpu.counters().bytes_free >= 100 * MIB, "a hundred are kept for the next hundred");
        device.trim()?;
        assert_eq!(gpu.counters().bytes_free, 0);
    }
    device.trim()?;
    assert_eq!((&x + &x).eval()?.to_host()?.as_slice(), [2, 4, 6], "arrays in use stay");
    Ok(())
}

#[test]
fn l12_what_is_kept_follows_what_was_in_use_and_can_be_given_back() {
    if of_this_process("VmRSS").is_none() {
        return report("not run: case L12 (nothing here tells a process's memory)");
    }
    in_children("random sizes", &[]);
}

/// What a thread keeps to its end, and what is still done with it then.
struct Kept {
    device: Device,
    x: Array<i32>,
    pending: Option<Pending<HostArray<i32>>>,
    computes: bool,
    done: Arc<AtomicUsize>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let pending = self.computes.then(|| self.pending.take()).flatten();
        let compute = || -> Result<i32> {
            let y = self.device.array(&[1, 2, 3, 4], 4)?;
            let total = (&self.x + &y).sum(..)?.item()?;
            let read = pending.map_or(Ok(0), |read| Ok::<_, Error>(read.wait()?.as_slice()[0]))?;
            self.device.synchronize().wait()?;
            Ok(total + read + pollster::block_on(y.cumsum(0)?.read())?.as_slice()[3])
        };
        if self.computes {
            assert_eq!(compute().expect("a thread that ends can compute"), 38 + 7 + 10);
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Threads that keep the last handles on a device in a variable of theirs, and end.
fn locals() {
    // By the parent's choice.
    let open = || Options::from_env().prewarm(0).cache(false).open().expect("the device opens again");
    let done = Arc::new(AtomicUsize::new(0));
    let mut ended = 0;
    for way in 0..32 {
        let [first, uses, waits, computes, elsewhere] = [1, 2, 4, 8, 16].map(|bit| way & bit != 0);
        let count = Arc::clone(&done);
        // Opened by the thread, or by one that never sees its end.
        let opened = elsewhere.then(open);
        let thread = std::thread::spawn(move || {
            if first {
                // The thread's variable is there before anything of a driver's.
                KEPT.with(|_| ());
            }
            let device = opened.unwrap_or_else(open);
            let x = device.full(7, 4).expect("there is memory");
            if uses {
                assert_eq!(x.sum(..).and_then(|sum| sum.item()).expect("it computes"), 28);
            }
            let pending = waits.then(|| x.read());
            let waited = pending.is_some();
            let kept = Kept { device, x, pending, computes: computes && waited, done: count };
            KEPT.set(Some(kept));
        });
        thread.join().expect("the thread ends well");
        ended += 1;
        assert_eq!(done.load(Ordering::Relaxed), ended, "way {way}");
    }
}

#[test]
fn l04_the_last_handle_may_live_in_a_thread_local() {
    in_children("locals", &[]);
}

/// Opens a device, warms it up, works with it and drops it, again and again, and looks at what the process has.
fn rounds() -> Result<()> {
    const MOST: u64 = 50 << 20;
    let mut second = 0;
    for round in 1..=110 {
        let device = Options::from_env().separate().open()?;
        assert!(device.warm_up().wait().error.is_none());
        let (x, y) = (device.full(1f32, [500, 500])?, device.full(2f32, [500, 500])?);
        assert_eq!((&x + &y).eval()?.sum(..)?.item()?.to_bits(), 750_000f32.to_bits());
        x.cumsum(1)?.to_host()?;
        drop((x, y, device));
        let now = of_this_process("VmRSS").expect("the system knows");
        if round == 2 {
            second = now;
        }
        if round >= 2 {
            let more = now.saturating_sub(second);
            assert!(more <= MOST, "after {round} rounds {more} bytes more than after the second");
        }
    }
    Ok(())
}

#[test]
fn l20_devices_that_come_and_go_leave_no_memory() {
    if of_this_process("VmRSS").is_none() {
        return report("not run: case L20 (nothing here tells a process's memory)");
    }
    let folder = std::env::temp_dir().join(format!("kiln-l20-{}", std::process::id()));
    let also = folder.to_string_lossy();
    in_children("rounds", &[("KILN_CACHE", "1"), ("KILN_CACHE_DIR", &also)]);
    if long() {
        in_children("rounds", &[("KILN_CACHE", "0")]);
    } else {
        report("not run: case L20 without a cache (time; KILN_TEST_LONG=1 runs it)");
    }
    // It is not there where nothing was kept.
    let _ = std::fs::remove_dir_all(folder);
}
