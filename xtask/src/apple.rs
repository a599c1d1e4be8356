//! `cargo xtask cross --link`: the suite's test binary for macOS on arm64, linked on any host.
//!
//! A linker needs of a system's libraries their names and their symbols alone. `apple_symbols.txt` lists both, and what
//! is written from it stands in for an SDK: one text file (`.tbd`) for each library. The linker is the one that comes
//! with rustup's toolchains. What it makes is then read, to see that it is what macOS loads and that it asks for
//! nothing else than what the list has.

use std::fs;
use std::path::Path;

use crate::macho::{self, Executable};
use crate::workspace::Workspace;
use crate::{cross, process};

const TARGET: &str = "aarch64-apple-darwin";
const LIST: &str = include_str!("apple_symbols.txt");

/// One library of macOS, as far as the suite needs it.
#[derive(Debug, Default, PartialEq)]
struct Library<'a> {
    install_name: &'a str,
    /// The files of an SDK that stand for it, below its root.
    stubs: Vec<&'a str>,
    symbols: Vec<&'a str>,
}

/// Links the suite and checks what came of it; where that cannot be done, an error only when required.
pub(crate) fn run() -> Result<(), String> {
    if cfg!(target_os = "macos") {
        println!("not checked: linking with stubs (on a Mac every build links against the system itself)");
        return Ok(());
    }
    if !cross::has_linker(TARGET) {
        println!("not checked: linking for {TARGET} (needs rustup's rust-lld and `rustup target add {TARGET}`)");
        return cross::verdict(&[&format!("linking for {TARGET}")]);
    }
    let libraries = parse(LIST)?;
    // A directory of its own: another linker makes cargo build everything again.
    let dir = Workspace::members()?.target_dir.join("apple-link");
    let sdk = dir.join("sdk");
    write_stubs(&dir, &sdk, &libraries)?;
    let path = link(&dir, &sdk)?;
    let bytes = fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let executable = macho::read(&bytes).map_err(|error| format!("{path}: {error}"))?;
    compare(&executable, &libraries).map_err(|error| format!("{path}: {error}"))?;
    let names: Vec<&str> = executable.dylibs.iter().filter_map(|name| name.rsplit('/').next()).collect();
    let (size, imports) = (bytes.len(), executable.imports.len());
    println!("linked: {TARGET} suite, {size} bytes, dylibs: {} ({imports} symbols)", names.join(", "));
    Ok(())
}

/// Reads the list: `[install name] stub…` opens a library, the lines up to the next one are its symbols.
fn parse(list: &str) -> Result<Vec<Library<'_>>, String> {
    let mut libraries: Vec<Library<'_>> = Vec::new();
    for (number, line) in (1..).zip(list.lines()) {
        let wrong = |what: &str| format!("apple_symbols.txt, line {number}: {what}");
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(opening) = line.strip_prefix('[') {
            let (install_name, stubs) = opening.split_once(']').ok_or_else(|| wrong("`[` without `]`"))?;
            let stubs: Vec<&str> = stubs.split_whitespace().collect();
            if stubs.is_empty() {
                return Err(wrong("a library without a file"));
            }
            libraries.push(Library { install_name, stubs, symbols: Vec::new() });
        } else if !line.is_empty() {
            let library = libraries.last_mut().ok_or_else(|| wrong("symbols before the first library"))?;
            library.symbols.extend(line.split_whitespace());
        }
    }
    Ok(libraries)
}

impl Library<'_> {
    /// Its `.tbd`: version 4 of the format, which is YAML.
    fn stub(&self) -> String {
        let mut text = "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\n".to_owned();
        text += &format!("install-name: '{}'\n", self.install_name);
        if !self.symbols.is_empty() {
            let symbols = self.symbols.join(", ");
            text += &format!("exports:\n  - targets: [ arm64-macos ]\n    symbols: [ {symbols} ]\n");
        }
        text + "...\n"
    }
}

/// Brings the stubs up to date. Cargo does not know of them, so what was linked with others is removed first.
fn write_stubs(dir: &Path, sdk: &Path, libraries: &[Library<'_>]) -> Result<(), String> {
    let files: Vec<_> = libraries.iter().flat_map(|l| l.stubs.iter().map(|&stub| (stub, l.stub()))).collect();
    let all: String = files.iter().map(|(stub, text)| format!("# {stub}\n{text}")).collect();
    let written = sdk.join("all.txt");
    if fs::read_to_string(&written).is_ok_and(|old| old == all) {
        return Ok(());
    }
    if dir.exists() {
        let clean = ["clean", "--quiet", "--package", "kiln", "--target", TARGET, "--target-dir"];
        process::run(process::cargo().args(clean).arg(dir))?;
    }
    if sdk.exists() {
        fs::remove_dir_all(sdk).map_err(|error| format!("{}: {error}", sdk.display()))?;
    }
    for (stub, text) in &files {
        write(&sdk.join(stub), text)?;
    }
    // Last, so that an interrupted run is noticed.
    write(&written, &all)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Builds and links the suite; the path of its binary.
fn link(dir: &Path, sdk: &Path) -> Result<String, String> {
    let mut command = process::cargo();
    command.args(["test", "--quiet", "--package", "kiln", "--test", "suite", "--no-run", "--target", TARGET]);
    command.args(["--message-format", "json-render-diagnostics", "--target-dir"]).arg(dir);
    command.env("SDKROOT", sdk).env("CARGO_TARGET_AARCH64_APPLE_DARWIN_LINKER", "rust-lld");
    // Nobody will debug it here.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    let messages = process::output(&mut command).map_err(|error| {
        format!(
            "{error}\n       an undefined symbol belongs into xtask/src/apple_symbols.txt, if macOS has it; \
             a crate that compiles C or assembly for the target cannot be linked here (CONTRIBUTING.md)"
        )
    })?;
    process::executable(&messages, "suite")
}

/// The program loads the libraries of the list and asks each for symbols that the list has.
fn compare(executable: &Executable, libraries: &[Library<'_>]) -> Result<(), String> {
    if let Some(unused) = libraries.iter().find(|l| !executable.dylibs.iter().any(|name| name == l.install_name)) {
        return Err(format!("does not load {}", unused.install_name));
    }
    let listed = |name: &String| libraries.iter().find(|library| library.install_name == name);
    if let Some(name) = executable.dylibs.iter().find(|name| listed(name).is_none()) {
        return Err(format!("loads {name}, which is not in apple_symbols.txt"));
    }
    for import in &executable.imports {
        if !listed(&import.dylib).is_some_and(|library| library.symbols.contains(&&*import.symbol)) {
            return Err(format!("asks {} for {}, which is not in apple_symbols.txt", import.dylib, import.symbol));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::macho::Import;

    const SMALL: &str = "# a list\n[/usr/lib/libm.dylib] usr/lib/libm.tbd usr/lib/libc.tbd # two\n_sin _cos\n\n_tan\n";

    #[test]
    fn a_stub_names_the_library_and_its_symbols() {
        let libraries = parse(SMALL).expect("a list");
        assert_eq!(libraries.len(), 1);
        assert_eq!(libraries[0].stubs, ["usr/lib/libm.tbd", "usr/lib/libc.tbd"]);
        let expected = "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: '/usr/lib/libm.dylib'\n\
                        exports:\n  - targets: [ arm64-macos ]\n    symbols: [ _sin, _cos, _tan ]\n...\n";
        assert_eq!(libraries[0].stub(), expected);
        let bare = Library { install_name: "/x", ..Library::default() };
        assert_eq!(bare.stub(), "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: '/x'\n...\n");
    }

    #[test]
    fn a_list_out_of_form_is_refused() {
        assert!(parse("_sin").is_err_and(|error| error.contains("line 1: symbols before")));
        assert!(parse("\n[/usr/lib/libm.dylib x").is_err_and(|error| error.contains("line 2: `[`")));
        assert!(parse("[/usr/lib/libm.dylib]").is_err_and(|error| error.contains("without a file")));
        assert!(parse(LIST).is_ok_and(|libraries| libraries.len() > 5));
    }

    #[test]
    fn a_program_may_ask_for_what_is_listed() {
        let libraries = parse(SMALL).expect("a list");
        let program = |dylibs: &[&str], symbol: &str| Executable {
            dylibs: dylibs.iter().map(|&name| name.to_owned()).collect(),
            imports: vec![Import { symbol: symbol.to_owned(), dylib: "/usr/lib/libm.dylib".to_owned() }],
        };
        let error = |dylibs: &[&str], symbol: &str| compare(&program(dylibs, symbol), &libraries).unwrap_err();
        assert_eq!(compare(&program(&["/usr/lib/libm.dylib"], "_tan"), &libraries), Ok(()));
        assert!(error(&["/usr/lib/libm.dylib"], "_sinh").contains("_sinh, which is not"));
        assert!(error(&[], "_sin").contains("does not load"));
        assert!(error(&["/usr/lib/libm.dylib", "/x"], "_sin").contains("loads /x"));
    }
}
