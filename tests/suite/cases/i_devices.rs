//! Group (i): devices, threads, futures.

use kiln::prelude::*;
use kiln::{Backend, DeviceKind, ErrorKind, Options};

use crate::harness::{assert_same, child, line, on_each_backend, values};

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

#[test]
fn i04_many_threads_read_back() {
    on_each_backend(|device| {
        std::thread::scope(|scope| {
            for t in 0..16 {
                scope.spawn(move || {
                    for round in 0..12 {
                        let n = 100 + t * 37 + round;
                        let host: Vec<i32> = (0..n).collect();
                        let a = line(device, &host);
                        let b = device.full(t, n as usize).unwrap();
                        let got = &a * &b + round;
                        let want: Vec<i32> = host.iter().map(|v| v * t + round).collect();
                        assert_eq!(got.sum(..).unwrap().item().unwrap(), want.iter().sum::<i32>());
                        assert_same(&values(&got.eval().unwrap()), &want, "a b + c");
                    }
                });
            }
        });
    });
}
