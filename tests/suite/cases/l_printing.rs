//! L15: how arrays are printed.

use kiln::{Element, IntoShape};

use crate::harness::{array, on_each_backend};

/// Asserts what `{}` and `{:#}` write of values.
fn check<T: Element>(values: &[T], shape: impl IntoShape, short: &str, whole: &str) {
    let shape = shape.into_shape();
    on_each_backend(|device| {
        let host = array(device, values, &shape[..]).to_host().unwrap();
        assert_eq!(host.to_string(), short, "{shape} with {{}}");
        assert_eq!(format!("{host:#}"), whole, "{shape} with {{:#}}");
    });
}

#[test]
fn l15_a_whole_array() {
    let twenty: Vec<i32> = (0..20).collect();
    check(
        &twenty,
        20,
        "[ 0,  1,  2,  3,  4,  5, ..., 14, 15, 16, 17, 18, 19]",
        "[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]",
    );
    // Rows that are left out have a line of their own, and only what is shown counts for the width.
    let tall: Vec<i32> = (0..13).map(|row| if row == 6 { 123_456 } else { row }).collect();
    let ends = "[[ 0],\n [ 1],\n [ 2],\n [ 3],\n [ 4],\n [ 5],\n ...,\n [ 7],\n [ 8],\n [ 9],\n [10],\n [11],\n [12]]";
    let rows: Vec<String> = tall.iter().map(|value| format!("[{value:6}]")).collect();
    check(&tall, [13, 1], ends, &format!("[{}]", rows.join(",\n ")));
    // All values of a long array, in order.
    on_each_backend(|device| {
        let long: Vec<u32> = (0..5000).collect();
        let text = format!("{:#}", array(device, &long, [50, 100]).to_host().unwrap());
        let words = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
        assert_eq!(words.map(|word| word.parse::<u32>().unwrap()).collect::<Vec<_>>(), long);
    });
}

#[test]
fn l15_an_empty_array_shows_its_shape() {
    for (shape, text) in [
        (&[2, 0][..], "[], shape (2, 0)"),
        (&[0, 2], "[], shape (0, 2)"),
        (&[3, 0, 4], "[], shape (3, 0, 4)"),
        (&[0], "[]"),
    ] {
        check::<f32>(&[], shape, text, text);
    }
    on_each_backend(|device| {
        let host = device.zeros::<bool>([2, 0]).unwrap().to_host().unwrap();
        assert_eq!(format!("{host:?}"), "HostArray<bool> (2, 0)\n[]");
    });
}

#[test]
fn l15_columns_are_aligned() {
    let both = |text: &str, ints: &[i32], shape: &[usize]| check(ints, shape, text, text);
    both("[[   1,   22],\n [-333,    4]]", &[1, 22, -333, 4], &[2, 2]);
    both("-7", &[-7], &[]);
    both("[[[1, 2],\n  [3, 4]],\n\n [[5, 6],\n  [7, 8]]]", &[1, 2, 3, 4, 5, 6, 7, 8], &[2, 2, 2]);
    let text = "[[  1.0 ,  22.25],\n [ -3.5 , 400.0 ]]";
    check(&[1.0f32, 22.25, -3.5, 400.0], [2, 2], text, text);
    let text = "[  1.5,   NaN,  -inf, -20.0]";
    check(&[1.5f32, f32::NAN, f32::NEG_INFINITY, -20.0], 4, text, text);
    // One that is wider than all numbers.
    let text = "[ 1.0, -inf]";
    check(&[1.0f32, f32::NEG_INFINITY], 2, text, text);
    let text = "[1e-10 , 2.5e20, 0.125 ]";
    check(&[1e-10f32, 2.5e20, 0.125], 3, text, text);
    let text = "[ true, false]";
    check(&[true, false], 2, text, text);
}

#[test]
fn l15_digits_and_widths_are_honoured() {
    on_each_backend(|device| {
        let host = array(device, &[1.0f32, 22.256, -3.5, 0.0], [2, 2]).to_host().unwrap();
        assert_eq!(format!("{host:.1}"), "[[ 1.0, 22.3],\n [-3.5,  0.0]]");
        assert_eq!(format!("{host:+.0}"), "[[ +1, +22],\n [ -4,  +0]]");
        assert_eq!(format!("{:6}", array(device, &[1, 20], 2).to_host().unwrap()), "[     1,     20]");
        assert_eq!(format!("{host:.1?}"), "HostArray<f32> (2, 2)\n[[ 1.0, 22.3],\n [-3.5,  0.0]]");
        // What shows a value of a program's own in full must not show millions of numbers.
        let many = device.full(7, 20).unwrap().to_host().unwrap();
        assert!(format!("{many:#?}").contains("..."), "{many:#?}");
    });
}
