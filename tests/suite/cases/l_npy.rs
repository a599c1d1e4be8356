//! Case L06: spellings of `.npy` headers, by the reader of the examples.

use kiln::{Backend, Element, Options};

#[allow(dead_code, reason = "the examples use more of it")]
#[path = "../../../examples/npy/mod.rs"]
mod npy;

use npy::Values;

/// A file with such a header, after the version's length field.
fn file(version: u8, descr: &str, shape: &str, data: &[u8]) -> Result<npy::File, String> {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    let len = u32::try_from(header.len()).expect("it is short").to_le_bytes();
    let len = if version == 1 { &len[..2] } else { &len[..] };
    let bytes = [b"\x93NUMPY", &[version, 0][..], len, header.as_bytes(), data].concat();
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("kiln-l06-{}-{number}.npy", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file can be written");
    let file = npy::read(&path);
    std::fs::remove_file(&path).expect("it was written");
    file
}

#[track_caller]
fn check<T: Element>(file: &npy::File, values: &[T], want: &[T], shape: &[usize]) {
    let device = Options::new().backend(Backend::Cpu).open().expect("there is a CPU");
    let host = file.upload(&device, values).and_then(|array| array.to_host()).expect("it fits");
    assert_eq!((host.shape(), host.as_slice()), (shape, want));
}

#[test]
fn l06_spellings_that_numpy_reads() {
    let floats = [1.5f32, -2.0, 3.0, 4.0, 5.0, 6.0];
    let data = floats.map(f32::to_le_bytes).concat();
    for version in 1..=3 {
        for descr in ["'<f4'", "'=f4'", "'f4'", "\"=f4\"", "\"f4\""] {
            for (shape, lens) in [("(2L, 3L)", &[2, 3][..]), ("(2, 3)", &[2, 3]), ("(6L,)", &[6])] {
                let what = format!("version {version}, {descr}, {shape}");
                let file = file(version, descr, shape, &data).unwrap_or_else(|error| panic!("{what}: {error}"));
                let Values::F32(values) = &file.values else { panic!("{what}: another type") };
                check(&file, values, &floats, lens);
            }
        }
    }
    for descr in ["'|b1'", "'b1'", "'<b1'", "'=b1'"] {
        let file = file(1, descr, "(3L,)", &[1, 0, 1]).unwrap_or_else(|error| panic!("{descr}: {error}"));
        let Values::Bool(values) = &file.values else { panic!("{descr}: another type") };
        check(&file, values, &[true, false, true], &[3]);
    }
    let big = [7i32, -8].map(i32::to_be_bytes).concat();
    let big = file(2, "'>i4'", "(2L,)", &big).expect("the other order of bytes");
    let Values::I32(values) = &big.values else { panic!("another type") };
    check(&big, values, &[7, -8], &[2]);
}

#[test]
fn l06_a_refusal_names_what_it_met() {
    let data = [0; 64];
    for (version, descr, shape, words) in [
        (1, "'<f4'", "(np.int64(2), 3)", "np.int64"),
        (1, "'<f4'", "(0x2, 3)", "0x2"),
        (1, "'<f4'", "(2l, 3)", "2l"),
        (1, "'<f4'", "(2.0, 3)", "2.0"),
        (1, "'<f4'", "(2_0, 3)", "2_0"),
        (1, "'<f8'", "(2, 3)", "'<f8'"),
        (1, "'=c8'", "(2, 3)", "c8"),
        (1, "'|S4'", "(2, 3)", "S4"),
        (4, "'<f4'", "(2, 3)", "version is 4.0"),
        (1, "'<f4'", "(20L, 30L)", "600 elements"),
    ] {
        let what = format!("version {version}, {descr}, {shape}");
        let refusal = file(version, descr, shape, &data).err().unwrap_or_else(|| panic!("{what} is read"));
        assert!(refusal.contains(words), "{what}: {refusal}");
    }
}
