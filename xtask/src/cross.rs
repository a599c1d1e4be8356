//! Type checks of the façade for targets that are not the host: Metal's and the browser's.
//!
//! Two ways, the first that is there: a toolchain with the target's standard library
//! (`rustup target add TARGET`), or Debian's `rustc-web`, which builds that library from
//! its packaged source.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::process;
use crate::workspace::Workspace;

const TARGETS: [&str; 2] = ["aarch64-apple-darwin", "wasm32-unknown-unknown"];
const REQUIRE: &str = "KILN_REQUIRE_CROSS";

/// Checks every target; one that cannot be checked is an error only when required.
pub(crate) fn run() -> Result<(), String> {
    let mut unchecked = Vec::new();
    for target in TARGETS {
        let Some(mut command) = checker(target)? else {
            println!(
                "not checked: {target} (neither `rustup target add {target}` nor \
                 Debian's rustc-web, cargo-web and rust-web-src)"
            );
            unchecked.push(target);
            continue;
        };
        let start = Instant::now();
        process::run(command.args(["check", "--quiet", "--package", "kiln", "--lib", "--target", target]))?;
        println!("checked: {target} ({:.0} s)", start.elapsed().as_secs_f32());
    }
    verdict(&unchecked)
}

/// What could not be checked is an error when required.
pub(crate) fn verdict(unchecked: &[&str]) -> Result<(), String> {
    let required = std::env::var(REQUIRE).is_ok_and(|value| value == "1");
    if required && !unchecked.is_empty() {
        return Err(format!("{REQUIRE}=1, but not checked: {}", unchecked.join(", ")));
    }
    Ok(())
}

/// A cargo that can check for `target`, with what it needs in its environment.
fn checker(target: &str) -> Result<Option<Command>, String> {
    if has_target(&rustc(), target) {
        return Ok(Some(process::cargo()));
    }
    if !debian_builds_std() {
        return Ok(None);
    }
    // A directory of its own: two compilers in one would rebuild everything in turn.
    let target_dir = Workspace::members()?.target_dir.join("cross");
    let mut command = process::in_root(DEBIAN_CARGO);
    command
        .env("RUSTC", DEBIAN_RUSTC)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", target_dir)
        // What the calling toolchain set for itself.
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTDOC")
        .env_remove("CARGO")
        .arg("-Zbuild-std=std,panic_abort")
        // Macros are compiled here, and run too seldom to be worth optimising.
        .args(["--config", "profile.dev.package.'*'.opt-level=0"]);
    Ok(Some(command))
}

/// Whether the toolchain can both compile and link for `target`: its own linker is there.
pub(crate) fn has_linker(target: &str) -> bool {
    let rustc = rustc();
    let name = format!("rust-lld{}", std::env::consts::EXE_SUFFIX);
    let of_host = ask(&rustc, &["--print", "target-libdir"]).map(PathBuf::from);
    has_target(&rustc, target) && of_host.is_some_and(|lib| lib.with_file_name("bin").join(name).is_file())
}

/// The compiler that cargo would take.
fn rustc() -> PathBuf {
    std::env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from)
}

/// Whether `rustc` comes with a compiled standard library for `target`.
fn has_target(rustc: &Path, target: &str) -> bool {
    ask(rustc, &["--print", "target-libdir", "--target", target]).is_some_and(|dir| PathBuf::from(dir).is_dir())
}

/// Where Debian's packages put their programs; rustup's stand elsewhere.
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// Whether Debian's toolchain is installed with its library source, and new enough.
fn debian_builds_std() -> bool {
    let rustc = Path::new(DEBIAN_RUSTC);
    let source = |sysroot: String| Path::new(&sysroot).join("lib/rustlib/src/rust/library/std/Cargo.toml");
    Path::new(DEBIAN_CARGO).is_file()
        && ask(rustc, &["--version"]).is_some_and(|text| minor(&text) >= minor(oldest()))
        && ask(rustc, &["--print", "sysroot"]).is_some_and(|sysroot| source(sysroot).is_file())
}

/// The workspace's `rust-version`, as rustc would print it.
fn oldest() -> &'static str {
    concat!("rustc ", env!("CARGO_PKG_RUST_VERSION"))
}

/// 88 of `rustc 1.88.0 (…)`.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

fn ask(rustc: &Path, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(rustc).args(arguments).env_remove("LD_LIBRARY_PATH").stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(minor("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some(96));
        assert_eq!(minor("rustc 1.88"), Some(88));
        assert_eq!(minor("no version"), None);
        assert!(minor(oldest()).is_some());
        assert!(minor("rustc 1.100.0") > minor("rustc 1.99.0"));
    }
}
