//! Runs the MSL of kernels on the CPU: a backend for tests, where there is no Mac.
//!
//! naga writes a kernel's MSL as it does inside wgpu; the system's C++ compiler compiles it against a stand-in for
//! `metal_stdlib`; the result runs with one fiber per thread. Barriers hold the whole threadgroup, SIMD groups have a
//! width that is chosen, threadgroup memory holds noise at first, and the order of threads and threadgroups is random.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `translate` | MSL becomes C++: a few edits, and a function that passes the arguments |
//! | `compiler` | C++ becomes a library: builds, flags, the files on disk |
//! | `library` | the host and kernels as loaded libraries |
//! | `backend` | recordings dispatched: buffers, slots, reports |
//! | `catalogue` | every kernel that built-in operators make |
//! | `host/include` | the stand-in for `metal_stdlib` |
//! | `host/runtime` | fibers, the scheduler, the checks |
//!
//! What it cannot show: whether Apple's compiler takes the text, how accurate Apple's functions are, what a GPU's memory
//! does under load. `docs/metal.md` lists that.

mod backend;
mod catalogue;
mod compiler;
mod library;
mod translate;

pub use backend::{Metal, Options};
pub use catalogue::catalogue;
pub use compiler::{Build, Compiler};
pub use library::{Argument, Dispatch, Host, Kernel};
pub use translate::{Translated, translate};
