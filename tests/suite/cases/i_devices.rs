//! Group (i): devices, threads, futures.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln::prelude::*;
use kiln::{Backend, DeviceInfo, DeviceKind, ErrorKind, Options};

use crate::harness::{assert_same, child, line, long, on_each_backend, report, values, within};

fn open_cpu() -> Device {
    Options::new().backend(Backend::Cpu).separate().open().unwrap()
}

/// No driver: the default is the CPU, and asking for Vulkan is an error that says so.
#[test]
fn i01_no_adapter() {
    let nothing = if cfg!(windows) { "NUL" } else { "/dev/null" };
    let drivers = [("VK_ICD_FILENAMES", nothing), ("VK_DRIVER_FILES", nothing)];
    let none = [("KILN_BACKEND", ""), ("KILN_ADAPTER", "")];
    let environment = [drivers, none].concat();
    child("cases::i_devices::i01_no_adapter", &environment, || {
        let error = Options::new().backend(Backend::Vulkan).open().unwrap_err();
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::NoDevice { .. }), "{error}");
        if cfg!(all(target_os = "linux", feature = "wgpu")) {
            assert!(error.to_string().contains("no adapter"), "{error}");
            assert_eq!(kiln::open().unwrap().info().kind, DeviceKind::Cpu);
            assert_eq!(kiln::devices().len(), 1);
        }
    });
}

/// A word that names no backend, in the environment of another process.
#[test]
fn i01_environment_with_an_unknown_word() {
    let name = "cases::i_devices::i01_environment_with_an_unknown_word";
    child(name, &[("KILN_BACKEND", "abacus")], || {
        let error = kiln::open().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NoDevice { .. }), "{error:?}");
        let text = error.to_string();
        for word in ["KILN_BACKEND=abacus", "cpu", "vulkan", "metal", "dx12"] {
            assert!(text.contains(word), "{word:?} is not in {text}");
        }
        // `Options::new` does not look at the environment.
        assert_eq!(open_cpu().info().backend, "cpu");
    });
}

/// The environment's words are honoured.
#[test]
fn i01_environment_that_asks_for_the_cpu() {
    let name = "cases::i_devices::i01_environment_that_asks_for_the_cpu";
    child(name, &[("KILN_BACKEND", "CPU"), ("KILN_ADAPTER", "")], || {
        let device = kiln::open().unwrap();
        assert_eq!(device.info().kind, DeviceKind::Cpu);
        let x = line(&device, &[1.0f32, 2.0]);
        assert_eq!(x.sum(..).unwrap().item().unwrap(), 3.0);
    });
}

/// A software adapter is never the default, and is reported as what it is.
#[test]
fn i02_software_adapters_only_when_asked() {
    let default = Options::new().open().unwrap();
    assert_ne!(default.info().kind, DeviceKind::SoftwareGpu);
    for info in kiln::devices() {
        let software =
            ["llvmpipe", "lavapipe", "swiftshader"].iter().any(|name| info.name.to_lowercase().contains(name));
        assert_eq!(software, info.kind == DeviceKind::SoftwareGpu, "{info}");
    }
}

/// Every device of the list opens by its number, and is the one of the list.
#[test]
fn i12_devices_by_number_and_name() {
    let devices = kiln::devices();
    assert_eq!(devices.last().map(|info| info.backend), Some("cpu"));
    for (number, info) in devices.iter().enumerate() {
        let device = Options::new().adapter(number.to_string()).open().unwrap();
        assert_eq!(device.info(), info, "number {number}");
        assert!(!info.name.is_empty() && !info.to_string().is_empty());
    }
    if let Some(first) = devices.iter().find(|info| info.kind != DeviceKind::Cpu) {
        let device = Options::new().adapter(first.name.to_uppercase()).open();
        assert_eq!(device.unwrap().info().name, first.name);
    }
}

/// Without a wish the best kind is opened: a card, then a GPU in the processor, others, the CPU; never a software GPU.
#[test]
fn i12_the_default_is_the_best_kind() {
    child("cases::i_devices::i12_the_default_is_the_best_kind", &[("KILN_ADAPTER", ""), ("KILN_BACKEND", "")], || {
        use DeviceKind::{Cpu, DiscreteGpu, IntegratedGpu, OtherGpu};
        let devices = kiln::devices();
        let best = [DiscreteGpu, IntegratedGpu, OtherGpu, Cpu].into_iter();
        let best = best.into_iter().find(|kind| devices.iter().any(|info| info.kind == *kind));
        assert_eq!(Some(kiln::open().unwrap().info().kind), best, "of {devices:?}");
    });
}

/// `KILN_ADAPTER` chooses by number and by name; what does not exist is refused, with all that does.
#[test]
fn i12_devices_by_the_environment() {
    const NAME: &str = "cases::i_devices::i12_devices_by_the_environment";
    let devices = kiln::devices();
    let numbers = (0..=devices.len()).map(|number| number.to_string());
    let gpus = devices.iter().filter(|info| info.kind != DeviceKind::Cpu).map(|info| info.name.to_uppercase());
    for word in numbers.chain(gpus).chain(["abacus".to_owned()]) {
        child(NAME, &[("KILN_ADAPTER", &word), ("KILN_BACKEND", "")], || {
            let word = std::env::var("KILN_ADAPTER").unwrap();
            let devices = kiln::devices();
            let named = |info: &&DeviceInfo| info.name.to_uppercase() == word;
            let want = match word.parse::<usize>() {
                Ok(number) => devices.get(number),
                Err(_) => devices.iter().find(named),
            };
            match (kiln::open(), want) {
                (Ok(device), Some(info)) => assert_eq!(device.info(), info, "{word}"),
                (Err(error), None) => {
                    let text = error.to_string();
                    for part in devices.iter().map(|info| &info.name).chain([&word]) {
                        assert!(text.contains(part.as_str()), "{part} is not in {text}");
                    }
                }
                (got, want) => panic!("{word}: opened {got:?}, wanted {want:?}"),
            }
        });
    }
}

#[test]
fn i03_arrays_of_two_devices() {
    let other = open_cpu();
    on_each_backend(|device| {
        assert_ne!(*device, other);
        assert_eq!(*device, device.clone());
        let a = line(device, &[1.0f32, 2.0]);
        let b = line(&other, &[1.0f32, 2.0]);
        let mask = line(device, &[true, false]);
        for (op, expr) in [
            ("add", &a + &b),
            ("mul", &b * &a),
            ("max", a.maximum(&b)),
            ("select", mask.select(&b, &b)),
            ("select", mask.select(&a, &b)),
        ] {
            let error = expr.eval().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::DeviceMismatch { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.starts_with(op), "{text}");
            for info in [device.info(), other.info()] {
                assert!(text.contains(&info.to_string()), "{text}");
            }
            assert!(error.location().is_some());
        }
        let error = a.lt(&b).any(..).unwrap_err();
        assert!(error.to_string().contains("two devices"), "{error}");
        // Both go on.
        assert_eq!(values(&(&a + &a).eval().unwrap()), [2.0, 4.0]);
        assert_eq!(values(&(&b + &b).eval().unwrap()), [2.0, 4.0]);
    });
}

/// Rounds on sixteen threads: an array of each, a product and a sum, read back.
fn many_threads(device: &Device, rounds: i32) -> Duration {
    let worker = |t: i32| {
        let mut longest = Duration::ZERO;
        for round in 0..rounds {
            let n = 100 + t * 37 + round % 100;
            let host: Vec<i32> = (0..n).collect();
            let start = Instant::now();
            let a = line(device, &host);
            let b = device.full(t, n as usize).unwrap();
            let got = (&a * &b + round).eval().unwrap();
            let sum = (&a * &b + round).sum(..).unwrap();
            longest = longest.max(start.elapsed());
            let want: Vec<i32> = host.iter().map(|v| v * t + round).collect();
            assert_eq!(sum.item().unwrap(), want.iter().sum::<i32>());
            assert_same(&values(&got), &want, "a b + c");
        }
        longest
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..16).map(|t| scope.spawn(move || worker(t))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap()
    })
}

#[test]
fn i04_many_threads_read_back() {
    on_each_backend(|device| _ = many_threads(device, 12));
}

/// With a thread that waits for long kernels, over and over: nobody else waits for them to submit work.
#[test]
fn i04_many_threads_beside_a_long_kernel() {
    let name = "cases::i_devices::i04_many_threads_beside_a_long_kernel";
    if !long() {
        return report("not run: case I04 in full (takes minutes on software; KILN_TEST_LONG=1 runs it)");
    }
    child(name, &[], || {
        on_each_backend(|device| {
            let gpu = matches!(device.info().kind, DeviceKind::DiscreteGpu | DeviceKind::IntegratedGpu);
            let (rounds, limit) = if gpu { (1000, 120) } else { (100, 600) };
            within(Duration::from_secs(limit), || {
                // A row against itself, long enough that its sum takes a GPU a good part of a second.
                let row = device.full(1.0f32, 1 << 16).unwrap();
                let column = row.reshape([1 << 16, 1]).unwrap();
                let rows = column.slice(s![..if gpu { 1 << 15 } else { 1 << 8 }]).unwrap();
                let over = AtomicBool::new(false);
                let longest = std::thread::scope(|scope| {
                    scope.spawn(|| {
                        while !over.load(Ordering::Relaxed) {
                            assert!((&row * &rows).tanh().sum(0).unwrap().max(..).unwrap().item().unwrap() > 0.0);
                        }
                    });
                    let longest = catch_unwind(AssertUnwindSafe(|| many_threads(device, rounds)));
                    over.store(true, Ordering::Relaxed);
                    longest.unwrap_or_else(|panic| resume_unwind(panic))
                });
                assert!(!gpu || longest < Duration::from_millis(50), "a thread took {longest:?} to submit its work");
            });
        });
    });
}
