//! L16, D02, D03: what a program that does not compile is told.
//!
//! Each snippet is compiled as a user's program is, and fails for the words that the compiler's text must have. Its
//! twin below the same setting compiles, so that the fault is what is refused. Only words of Kiln's own are looked for,
//! and the compiler's names of errors.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A statement that is refused, the same as it should be, and what the refusal says.
struct Refused {
    name: &'static str,
    wrong: &'static str,
    right: &'static str,
    says: &'static [&'static str],
}

const L16: &[Refused] = &[
    Refused {
        name: "max_of_two",
        wrong: "_ = x.max(&y)?;",
        right: "_ = x.maximum(&y).eval()?;",
        says: &["names no axes", "`x.maximum(&y)`"],
    },
    Refused {
        name: "max_with_scalar",
        wrong: "_ = x.max(0.0)?;",
        right: "_ = x.maximum(0.0).eval()?;",
        says: &["names no axes", "`x.maximum(&y)`"],
    },
    Refused {
        name: "min_of_expressions",
        wrong: "_ = (&x * 2.0).min(&y * 2.0)?;",
        right: "_ = (&x * 2.0).minimum(&y * 2.0).eval()?;",
        says: &["names no axes", "`x.minimum(&y)`"],
    },
    Refused {
        name: "max_in_a_closure",
        wrong: "_ = x.reduce(.., |a, b| a.max(b))?;",
        right: "_ = x.reduce(.., |a, b| a.maximum(b))?;",
        says: &["names no axes", "`x.maximum(&y)`"],
    },
    Refused {
        name: "scan_of_many_axes",
        wrong: "_ = x.cumsum(..)?;",
        right: "_ = x.reshape(x.size())?.cumsum(0)?;",
        says: &["`RangeFull` is not one axis", "`x.reshape(x.size())?`"],
    },
    Refused {
        name: "integer_literal",
        wrong: "_ = (&x * 2).eval()?;",
        right: "_ = (&x * 2.0).eval()?;",
        says: &["elements of type `f32`", "`2.0`"],
    },
    Refused {
        name: "integer_literal_in_a_method",
        wrong: "_ = x.maximum(0).eval()?;",
        right: "_ = x.maximum(0.0).eval()?;",
        says: &["elements of type `f32`", "`2.0`"],
    },
    Refused {
        name: "length",
        wrong: "_ = (&x / n).eval()?;",
        right: "_ = (&x / n as f32).eval()?;",
        says: &["`usize` is no operand for elements of type `f32`", "cast", "`n as f32`"],
    },
    Refused {
        name: "double",
        wrong: "_ = (x.clone() + 1.0f64).eval()?;",
        right: "_ = (x.clone() + 1.0f64 as f32).eval()?;",
        says: &["`f64` is no operand for elements of type `f32`", "cast"],
    },
    Refused {
        name: "other_elements",
        wrong: "_ = (&x + &i).eval()?;",
        right: "_ = (&x + i.cast()).eval()?;",
        says: &["is no operand for elements of type `f32`", "`.cast()`"],
    },
    Refused {
        name: "result",
        wrong: "_ = (&x - x.mean(0)).eval()?;",
        right: "_ = (&x - x.mean(0)?).eval()?;",
        says: &["is no operand for elements of type `f32`", "`?`"],
    },
    Refused {
        name: "result_in_a_method",
        wrong: "_ = x.gt(x.mean(0)).eval()?;",
        right: "_ = x.gt(x.mean(0)?).eval()?;",
        says: &["is no operand for elements of type `f32`", "`?`"],
    },
    Refused {
        name: "root_of_integers",
        wrong: "_ = i.sqrt().eval()?;",
        right: "_ = i.cast::<f32>().sqrt().eval()?;",
        says: &["`i32` is not a floating-point type", "`.cast::<f32>()`"],
    },
    Refused {
        name: "magnitude_of_unsigned",
        wrong: "_ = i.cast::<u32>().abs().eval()?;",
        right: "_ = i.cast::<i32>().abs().eval()?;",
        says: &["`u32` has no sign", "`.cast::<i32>()`"],
    },
    Refused {
        name: "complement_of_floats",
        wrong: "_ = x.not().eval()?;",
        right: "_ = x.gt(0.0).not().eval()?;",
        says: &["`f32` has no bitwise operators", "`x.gt(0.0)`"],
    },
    Refused {
        name: "tuple_as_shape",
        wrong: "_ = x.reshape((2, 2))?;",
        right: "_ = x.reshape([2, 2])?;",
        says: &["is no shape", "`[2, 3]`"],
    },
    Refused {
        name: "array_of_doubles",
        wrong: "_ = device.array(&[1.0f64], 1)?;",
        right: "_ = device.array(&[1.0f64 as f32], 1)?;",
        says: &["arrays of `f64` do not exist", "`f32`"],
    },
    Refused {
        name: "expression_to_host",
        wrong: "_ = (&x * 2.0).to_host()?;",
        right: "_ = (&x * 2.0).eval()?.to_host()?;",
        says: &["is not evaluated", "`eval`"],
    },
    Refused {
        name: "expression_item",
        wrong: "let _: f32 = (&x * 2.0).item()?;",
        right: "let _: f32 = (&x * 2.0).eval()?.item()?;",
        says: &["is not evaluated", "`eval`"],
    },
    Refused {
        name: "expression_read",
        wrong: "_ = (&x * 2.0).read();",
        right: "_ = (&x * 2.0).eval()?.read();",
        says: &["is not evaluated", "`eval`"],
    },
    Refused {
        name: "expression_slice",
        wrong: "_ = (&x * 2.0).slice(s![0])?;",
        right: "_ = (&x * 2.0).eval()?.slice(s![0])?;",
        says: &["is not evaluated", "`eval`"],
    },
    Refused {
        name: "expression_reshape",
        wrong: "_ = (&x * 2.0).reshape([2, 2])?;",
        right: "_ = (&x * 2.0).eval()?.reshape([2, 2])?;",
        says: &["is not evaluated", "`eval`"],
    },
    Refused {
        name: "expression_transpose",
        wrong: "_ = (&x * 2.0).transpose();",
        right: "_ = (&x * 2.0).eval()?.transpose();",
        says: &["is not evaluated", "`eval`"],
    },
];

/// Nothing changes an array: no view of it can be written to, whatever memory it shares.
const IN_PLACE: &[Refused] = &[
    Refused {
        name: "d02_add_to_a_broadcast_view",
        wrong: "let mut view = x.slice(s![..1])?.broadcast_to(1_000_000)?; view += 1.0;",
        right: "let mut view = x.slice(s![..1])?.broadcast_to(1_000_000)?; view = (view + 1.0).eval()?; _ = view;",
        says: &["E0368", "+="],
    },
    Refused {
        name: "d02_assign_to_an_element",
        wrong: "let mut view = x.broadcast_to([3, 4])?; view[0] = 1.0;",
        right: "let view = x.broadcast_to([3, 4])?; _ = view.slice(s![0])?;",
        says: &["E0608"],
    },
    Refused {
        name: "d03_add_the_transpose",
        wrong: "let mut m = x.reshape([2, 2])?; m += m.transpose();",
        right: "let mut m = x.reshape([2, 2])?; m = (&m + m.transpose()).eval()?; _ = m;",
        says: &["E0368", "+="],
    },
    Refused {
        name: "d03_add_through_another_handle",
        wrong: "let mut m = x.reshape([2, 2])?; let t = m.transpose(); m += &t;",
        right: "let mut m = x.reshape([2, 2])?; let t = m.transpose(); m = (m + &t).eval()?; _ = m;",
        says: &["E0368", "+="],
    },
];

/// A user's package, with a program for each statement and one for all that compile.
fn package() -> &'static PathBuf {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("words");
        let programs = folder.join("src/bin");
        let kiln = env!("CARGO_MANIFEST_DIR");
        _ = std::fs::remove_dir_all(&programs);
        std::fs::create_dir_all(&programs).expect("a folder for the package");
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file of the package");
        write(
            "Cargo.toml",
            &format!(
                "[package]\nname = \"words\"\nedition = \"2024\"\n[dependencies]\n\
                 kiln = {{ path = {kiln:?}, default-features = false }}\n[workspace]\n"
            ),
        );
        // The versions of this build, which need no network.
        if let Ok(lock) = std::fs::read_to_string(PathBuf::from(kiln).join("Cargo.lock")) {
            write("Cargo.lock", &lock);
        }
        let program = |statement: &str| {
            format!(
                "#![allow(warnings)]\nuse kiln::prelude::*;\n\
                 fn run(device: Device, x: Array<f32>, y: Array<f32>, i: Array<i32>, n: usize) -> kiln::Result<()> {{\n    \
                 {statement}\n    Ok(())\n}}\nfn main() {{}}\n"
            )
        };
        let all = || L16.iter().chain(IN_PLACE);
        for Refused { name, wrong, .. } in all() {
            write(&format!("src/bin/{name}.rs"), &program(wrong));
        }
        let right: Vec<String> = all().map(|refused| format!("{{ {} }}", refused.right)).collect();
        write("src/bin/right.rs", &program(&right.join("\n    ")));
        folder
    })
}

fn compile(program: &str) -> (Output, String) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["check", "--offline", "--color=never", "--bin", program, "--target-dir", "target"])
        .current_dir(package())
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .expect("cargo starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

fn check(refusals: &[Refused]) {
    let (output, text) = compile("right");
    assert!(output.status.success(), "what is right compiles:\n{text}");
    let mut failures = String::new();
    for Refused { name, wrong, says, .. } in refusals {
        let (output, text) = compile(name);
        // Cargo fails for other reasons, too; an error of rustc's has its number.
        let refused = !output.status.success() && text.contains("error[E");
        let missing: Vec<&str> = says.iter().copied().filter(|word| !text.contains(word)).collect();
        if !refused || !missing.is_empty() {
            failures += &format!("{name}: `{wrong}` (refused: {refused}) lacks {missing:?}\n{text}\n");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn l16_the_compiler_says_the_right_word() {
    check(L16);
}

#[test]
fn d02_d03_nothing_is_written_in_place() {
    check(IN_PLACE);
}
