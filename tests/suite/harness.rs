//! The backends, each opened once per process and shared by all tests, and the record of what ran.
//!
//! The record goes to standard error, past the test harness, and to the file that `KILN_TEST_REPORT` names:
//! `ran: cpu (…)`, `not run: wgpu (reason)`, `not run: case C08 on cpu (reason)`.

use std::io::Write;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kiln::{Array, Backend, Device, DeviceKind, Dtype, Element, IntoShape, Options, Schedule};
use kiln_array::recorder::Recorder;

/// One backend of the suite.
pub(crate) struct Tested {
    /// The word that the environment and the report use.
    pub(crate) name: &'static str,
    /// The open device, or why there is none.
    pub(crate) device: Result<Device, String>,
}

type Open = fn() -> Result<Device, String>;

/// Every backend, whether it could be opened or not.
pub(crate) fn backends() -> &'static [Tested] {
    static BACKENDS: OnceLock<Vec<Tested>> = OnceLock::new();
    BACKENDS.get_or_init(|| {
        let open: [(&'static str, Open); 3] = [("cpu", open_cpu), ("wgpu", open_wgpu), ("metal", open_metal)];
        let only = list("KILN_TEST_BACKENDS");
        let asked = |name: &str| only.iter().any(|word| word == name);
        let wanted = |name: &str| asked(name) || (only.is_empty() && name != "metal");
        open.into_iter()
            .filter(|(name, _)| wanted(name))
            .map(|(name, open)| {
                let device = open();
                match &device {
                    Ok(device) => report(&format!("ran: {name} ({})", device.info())),
                    Err(reason) => report(&format!("not run: {name} ({})", one_line(reason))),
                }
                Tested { name, device }
            })
            .collect()
    })
}

fn open_cpu() -> Result<Device, String> {
    let device = Options::new().backend(Backend::Cpu).open();
    device.map_err(|error| error.to_string())
}

/// The adapter that `KILN_ADAPTER` names, or the best GPU, or a software one.
fn open_wgpu() -> Result<Device, String> {
    let mut reasons = Vec::new();
    let mut choices = Vec::new();
    match std::env::var("KILN_ADAPTER") {
        Ok(adapter) if !adapter.is_empty() => choices.push(Options::new().adapter(adapter)),
        _ => {
            choices.push(Options::new());
            let apis = [Backend::Vulkan, Backend::Metal, Backend::Dx12];
            choices.extend(apis.map(|api| Options::new().backend(api)));
        }
    }
    let passthrough = std::env::var("KILN_METAL_PASSTHROUGH").is_ok_and(|word| word == "1");
    for options in choices {
        // Tests count compiles: nothing is compiled behind them, or kept from one run to the next.
        match options.metal_passthrough(passthrough).prewarm(0).cache(false).open() {
            Ok(device) if device.info().kind != DeviceKind::Cpu => return Ok(device),
            Ok(_) => reasons.push("no GPU".to_owned()),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(reasons.join("; "))
}

/// The MSL of kernels on the CPU, as `KILN_METAL` says. It takes minutes, so it runs where it is asked for.
#[cfg(unix)]
fn open_metal() -> Result<Device, String> {
    let backend = kiln_metal_host::Metal::from_env()?;
    Ok(Device::new(std::sync::Arc::new(backend)))
}

#[cfg(not(unix))]
fn open_metal() -> Result<Device, String> {
    Err("it loads the output of a C++ compiler as Unix does".to_owned())
}

fn list(variable: &str) -> Vec<String> {
    let text = std::env::var(variable).unwrap_or_default();
    let words = text.split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Adds a line to the record.
pub(crate) fn report(line: &str) {
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stderr = std::io::stderr().lock();
    writeln!(stderr, "{line}").expect("standard error takes a line");
    let Some(path) = std::env::var_os("KILN_TEST_REPORT").filter(|path| !path.is_empty()) else {
        return;
    };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| writeln!(file, "{line}"))
        .unwrap_or_else(|error| panic!("KILN_TEST_REPORT {}: {error}", path.display()));
}

/// Whether the cases that need much memory or time are to run.
pub(crate) fn long() -> bool {
    std::env::var("KILN_TEST_LONG").is_ok_and(|word| !word.is_empty() && word != "0")
}

/// Runs a case that needs much memory or time where `KILN_TEST_LONG` asks for it; says so where not.
pub(crate) fn long_case(name: &str, reason: &str, test: impl Fn(&Device)) {
    if long() {
        on_each_backend(test);
    } else {
        report(&format!("not run: case {name} ({reason}; KILN_TEST_LONG=1 runs it)"));
    }
}

/// Whether a device takes an array of so many 32-bit elements; where not, asserts that it says so.
pub(crate) fn takes(device: &Device, elements: usize) -> bool {
    let (bytes, most) = (elements as u64 * 4, device.caps().max_array_bytes);
    if bytes > most {
        let error = device.full(0u32, elements).expect_err("more than the device takes").to_string();
        assert!(error.contains(&bytes.to_string()) && error.contains(&most.to_string()), "{error}");
    }
    bytes <= most
}

/// Runs a test on every backend that could be opened. A failure says on which.
pub(crate) fn on_each_backend(test: impl Fn(&Device)) {
    let mut any = false;
    for Tested { name, device } in backends() {
        if let Ok(device) = device {
            any = true;
            let _says = SaysWhere(name);
            test(device);
        }
    }
    assert!(any, "no backend could be opened");
}

/// Runs statements with the smallest tiles; asserts that one needed more workgroups than a dimension has.
///
/// Tiles of the usual size would need inputs of a hundred million elements.
pub(crate) fn beyond_one_dimension(device: &Device, test: impl FnOnce(&Device)) {
    let recorder = Recorder::before(device);
    let small = Schedule { log_slots: Some(0), line_fastest: None };
    test(&recorder.device().with_schedule(small));
    let groups = most_groups(&recorder);
    assert!(groups > 65_535, "{groups} workgroups at most");
}

/// The most workgroups of a dispatch since the recordings were last taken.
pub(crate) fn most_groups(recorder: &Recorder) -> usize {
    let recordings = recorder.take();
    let dispatches = recordings.iter().flat_map(|recording| &recording.dispatches);
    dispatches.map(|dispatch| dispatch.groups).max().expect("something ran")
}

/// Runs a test of floats' exact bits on every backend whose compiler keeps the order of additions.
pub(crate) fn where_order_is_kept(case: &str, test: impl Fn(&Device)) {
    on_each_backend(|device| {
        if keeps_order(device) {
            test(device);
        } else {
            report(&format!("not run: case {case} on {} (its compiler regroups additions)", device.info()));
        }
    });
}

/// Whether floats have the promised bits. Only Metal's fast math may regroup additions, and only there the device is
/// asked: elsewhere the answer would hide what the tests look for.
pub(crate) fn keeps_order(device: &Device) -> bool {
    let info = device.info();
    let may_not = info.backend == "metal" && !["strict", "checked"].iter().any(|build| info.name.contains(build));
    !may_not || device.keeps_float_order().expect("the device adds")
}

struct SaysWhere(&'static str);

impl Drop for SaysWhere {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("... on backend {}", self.0);
        }
    }
}

/// What keeps the required backends from having run, a line each.
pub(crate) fn missing() -> Vec<String> {
    let backends = backends();
    let mut missing = Vec::new();
    for name in list("KILN_TEST_REQUIRE") {
        match backends.iter().find(|tested| tested.name == name).map(|tested| &tested.device) {
            Some(Ok(_)) => {}
            Some(Err(reason)) => missing.push(format!("{name} is required, but did not run: {reason}")),
            None => missing.push(format!("{name} is required, but it is not among the backends")),
        }
    }
    if backends.iter().all(|tested| tested.device.is_err()) {
        missing.push("no backend runs".to_owned());
    }
    missing
}

#[test]
fn required_backends_ran() {
    assert_eq!(missing(), Vec::<String>::new());
}

/// An array, made where it must be possible.
pub(crate) fn array<T: Element>(device: &Device, values: &[T], shape: impl IntoShape) -> Array<T> {
    device.array(values, shape).expect("an array of the right length")
}

/// A 1-d array.
pub(crate) fn line<T: Element>(device: &Device, values: &[T]) -> Array<T> {
    array(device, values, values.len())
}

/// The values on the host, row-major.
pub(crate) fn values<T: Element>(array: &Array<T>) -> Vec<T> {
    let host = array.to_host().expect("the array can be read");
    assert_eq!(host.shape(), &array.shape()[..], "the shape survives the read");
    host.into_vec()
}

/// The bits of a value, all NaN being one.
pub(crate) fn bits<T: Element>(value: T) -> u32 {
    let scalar = value.scalar();
    if scalar.dtype == Dtype::F32 && f32::from_bits(scalar.bits).is_nan() { f32::NAN.to_bits() } else { scalar.bits }
}

/// Asserts that values are the same bit for bit, all NaN being one.
#[track_caller]
pub(crate) fn assert_same<T: Element>(got: &[T], want: &[T], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}: number of values");
    let differ = |&(got, want): &(&T, &T)| bits(*got) != bits(*want);
    let wrong = got.iter().zip(want).enumerate().filter(|(_, pair)| differ(pair));
    let count = wrong.clone().count();
    let shown: Vec<_> = wrong.take(5).map(|(at, (got, want))| format!("[{at}] got {got:?}, want {want:?}")).collect();
    assert!(count == 0, "{what}: {count} of {} values differ: {}", want.len(), shown.join("; "));
}

/// Asserts that values are within a distance of what they should be; NaN and infinities must be the same.
#[track_caller]
pub(crate) fn assert_close(got: &[f32], want: &[f64], within: impl Fn(usize) -> f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}: number of values");
    for (at, (&got, &want)) in got.iter().zip(want).enumerate() {
        let wide = f64::from(got);
        let rounded = want as f32;
        let fine = bits(got) == bits(rounded) || (wide - want).abs() <= within(at);
        assert!(fine, "{what}: [{at}] got {got:?}, want {want:?} within {:e}", within(at));
    }
}

/// Runs a test that must end within a time, in a process of its own: what hangs ends it.
pub(crate) fn within(limit: Duration, test: impl FnOnce()) {
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("no end after {limit:?}");
            std::process::exit(101);
        }
    });
    test();
    drop(done);
    watchdog.join().expect("it only waits");
}

/// Runs a test in a process of its own with these variables set. `name` is the test's path, which calls this.
pub(crate) fn child(name: &str, environment: &[(&str, &str)], test: impl FnOnce()) {
    const MARK: &str = "KILN_TEST_CHILD";
    if std::env::var_os(MARK).is_some_and(|value| value == name) {
        return test();
    }
    let program = std::env::current_exe().expect("the suite's own path");
    let output = std::process::Command::new(program)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(MARK, name)
        .env_remove("KILN_TEST_REPORT")
        .envs(environment.iter().copied())
        .output()
        .expect("the suite starts");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let ran = text[0].contains("1 passed");
    assert!(output.status.success() && ran, "{}\n{}", text[0], text[1]);
}
