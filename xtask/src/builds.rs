//! `cargo xtask builds`: two builds of the same source, whose kernels must have the same texts and keys.
//!
//! The tests of the cache are built twice, without and with optimisation; a child of one must find everything that a child
//! of the other has kept.

use crate::process;

const TEST: &str = "first_kernel";
const CASE: &str = "h01_another_build_of_the_same_source_makes_nothing_again";

pub(crate) fn run() -> Result<(), String> {
    let build = ["test", "--package", "kiln", "--test", TEST, "--release", "--no-run", "--message-format", "json"];
    let program = process::executable(&process::output(process::cargo().args(build))?, TEST)?;
    let passed = process::run_counting(
        process::cargo()
            .args(["test", "--package", "kiln", "--test", TEST, CASE])
            .env("KILN_TEST_OTHER_BUILD", program),
    )?;
    if passed == 1 { Ok(()) } else { Err(format!("{passed} tests passed, not the one")) }
}
