//! The system's C++ compiler: finds it, asks it for libraries, keeps them on disk.
//!
//! A library's name is a hash of all that decides it (text, flags, the stand-in's files, the compiler's version), so one
//! that is there is right. Files are put in place by renaming: several processes may compile at once.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// How kernels are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Build {
    /// Every operation rounds as written: no contraction, no reordering.
    #[default]
    Strict,
    /// The compiler's own fast math, as Metal's compiler has it by default; subnormals are zero.
    Fast,
    /// As `Strict`, and every access to memory is checked.
    Checked,
}

impl Build {
    /// The word that `KILN_METAL` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Fast => "fast",
            Self::Checked => "checked",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Strict => &["-O1", "-ffp-contract=off", "-fno-thread-jumps"],
            Self::Fast => &["-O2", "-ffast-math"],
            Self::Checked => &[
                "-O1",
                "-ffp-contract=off",
                "-fno-thread-jumps",
                "-g1",
                "-fsanitize=thread",
                "--param=tsan-instrument-func-entry-exit=0",
                // Every access, also those that the sanitizer would show to be the same as one before.
                "-fno-tree-loop-im",
            ],
        }
    }
}

/// For every kernel: C++ as strict as Apple's, nothing of the C++ library.
const FLAGS: &[&str] = &[
    "-x",
    "c++",
    "-std=c++17",
    "-pedantic-errors",
    "-Wno-attributes",
    "-Wno-unknown-pragmas",
    "-Wno-unused",
    // Metal has no double: 1.5 is a float there.
    "-fsingle-precision-constant",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    // The host tells barriers apart by the calls that lead to them; so none may be there twice (-fno-thread-jumps above).
    "-fno-omit-frame-pointer",
    "-fPIC",
    "-fvisibility=hidden",
];

macro_rules! host_files {
    ($($path:literal)*) => { [$(($path, include_str!(concat!("../host/", $path)))),*] };
}

/// The stand-in and the runtime, whose contents decide what a library does.
const FILES: [(&str, &str); 15] = host_files!(
    "include/metal_stdlib" "include/simd/simd.h" "include/shim/scalars.h" "include/shim/vectors.h"
    "include/shim/integers.h" "include/shim/floats.h" "include/shim/relational.h" "include/shim/groups.h"
    "include/shim/atomics.h" "runtime/host.h" "runtime/fibers.h" "runtime/grid.h" "runtime/grid.cpp"
    "runtime/checks.cpp" "runtime/fibers.cpp"
);

/// A C++ compiler and where its output is kept.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: String,
    version: String,
    host: PathBuf,
    output: PathBuf,
}

impl Compiler {
    /// The compiler that `CXX` names, or `g++`, or `c++`. Its thread sanitizer must let calls through to our functions,
    /// and half-precision arithmetic must exist, so GCC 12 or later is what is known to do.
    ///
    /// # Errors
    /// There is none, or no place for its output.
    pub fn find() -> Result<Self, String> {
        let chosen = std::env::var("CXX").ok().filter(|name| !name.is_empty());
        let names: Vec<String> = chosen.map_or_else(|| vec!["g++".to_owned(), "c++".to_owned()], |name| vec![name]);
        let version = |name: &String| {
            let output = Command::new(name).arg("--version").output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned();
            output.status.success().then(|| (name.clone(), text))
        };
        let (program, version) =
            names.iter().find_map(version).ok_or_else(|| format!("no C++ compiler: tried {}", names.join(", ")))?;
        let output = output_folder()?;
        let host = output.join("host");
        for (name, text) in FILES {
            let path = host.join(name);
            if fs::read_to_string(&path).ok().as_deref() != Some(text) {
                fs::create_dir_all(path.parent().unwrap_or(&host)).map_err(|error| said(&path, &error))?;
                place(&path, text.as_bytes())?;
            }
        }
        Ok(Self { program, version, host, output })
    }

    /// The compiler's own name and version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The runtime as a library.
    ///
    /// # Errors
    /// It does not compile.
    pub fn runtime(&self) -> Result<PathBuf, String> {
        let sources = ["runtime/fibers.cpp", "runtime/grid.cpp", "runtime/checks.cpp"].map(|name| self.host.join(name));
        let flags = ["-std=c++17", "-O2", "-fno-omit-frame-pointer", "-fPIC", "-fno-exceptions", "-shared"];
        let mut command = Command::new(&self.program);
        command.args(flags).args(&sources).args(["-ldl", "-lm"]);
        self.build(&format!("runtime {flags:?}"), command)
    }

    /// Kernels, as [`translate`](crate::translate) gives them, in one library.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn kernels(&self, text: &str, build: Build) -> Result<PathBuf, String> {
        let key = self.key(&format!("{build:?} {FLAGS:?} {:?} {text}", build.flags()));
        let source = self.output.join(format!("{key:032x}.cpp"));
        if !source.exists() {
            place(&source, text.as_bytes())?;
        }
        let mut command = Command::new(&self.program);
        command.args(FLAGS).args(build.flags()).arg("-isystem").arg(self.host.join("include")).arg("-c").arg(&source);
        let library = self.output.join(format!("{key:032x}.so"));
        if library.exists() {
            return Ok(library);
        }
        // Linked apart from compiling: with fast math, linking would put code into the library that changes the
        // rounding of the whole process.
        let object = self.temporary("o");
        run(command.arg("-o").arg(&object), &source)?;
        let linked = self.temporary("so");
        let link = run(
            Command::new(&self.program)
                .args(["-shared", "-nostdlib", "-o"])
                .arg(&linked)
                .arg(&object)
                .args(["-lm", "-lc"]),
            &source,
        );
        let _ = fs::remove_file(&object);
        link?;
        fs::rename(&linked, &library).map_err(|error| said(&library, &error))?;
        Ok(library)
    }

    fn build(&self, what: &str, mut command: Command) -> Result<PathBuf, String> {
        let library = self.output.join(format!("{:032x}.so", self.key(what)));
        if library.exists() {
            return Ok(library);
        }
        let linked = self.temporary("so");
        run(command.arg("-o").arg(&linked), &library)?;
        fs::rename(&linked, &library).map_err(|error| said(&library, &error))?;
        Ok(library)
    }

    /// The hash of all that decides an output.
    fn key(&self, what: &str) -> u128 {
        let parts = FILES.iter().map(|(_, text)| *text).chain([self.version.as_str(), self.program.as_str(), what]);
        let bytes: Vec<u8> = parts.flat_map(|part| part.bytes().chain([0])).collect();
        xxhash_rust::xxh3::xxh3_128(&bytes)
    }

    fn temporary(&self, ending: &str) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.output.join(format!("new-{}-{number}.{ending}", std::process::id()))
    }
}

/// `target/PROFILE/metal-host`, where the running program lies in `target/PROFILE`; else in the folder for temporary
/// files.
fn output_folder() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let deps = program.ancestors().find(|folder| folder.ends_with("deps")).and_then(Path::parent);
    let folder = deps.map_or_else(std::env::temp_dir, Path::to_path_buf).join("metal-host");
    fs::create_dir_all(&folder).map_err(|error| said(&folder, &error))?;
    Ok(folder)
}

/// Writes a file so that others see all of it or nothing.
fn place(path: &Path, bytes: &[u8]) -> Result<(), String> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("new-{}-{number}", std::process::id()));
    let written =
        fs::File::create(&new).and_then(|mut file| file.write_all(bytes)).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| said(path, &error))
}

fn run(command: &mut Command, what: &Path) -> Result<(), String> {
    let output = command.output().map_err(|error| said(what, &error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}\n{}", what.display(), output.status, String::from_utf8_lossy(&output.stderr)))
}

fn said(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
