//! The cache of compiled kernels and the warm-up, tortured with processes that are damaged, killed and ended.
//!
//! A case runs in the parent, and what it does to Kiln in children: this binary again, with one test, which does the job
//! that a variable names and prints what it found as lines `fact NAME VALUE`. Driver crashes thus fail one case, and every
//! child begins with nothing but its folder.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `child` | the jobs of children |
//! | `process` | starting, killing and reading children; which device they use |
//! | `kernels` | any number of distinct kernels, with their results |
//! | `files` | folders, and damage done to them |
//! | `damaged`, `shared`, `unwritable`, `refused`, `foreign`, `growth`, `again` | the cache: cases H01 to H07 |
//! | `in_the_way` | folders where files should be: case L18 |
//! | `odd_times`, `shipped` | clocks that go backwards; export and import |
//! | `embedded` | a wgpu device that the program has opened itself |
//! | `threads`, `rehearsed`, `settings` | warm-up and first use: cases H11 to H15, I01; H12 is in `tests/ending` |
//!
//! `KILN_TEST_LONG=1` makes the random cases five to ten times longer.

mod again;
mod child;
mod damaged;
mod embedded;
mod files;
mod foreign;
mod growth;
mod in_the_way;
mod kernels;
mod odd_times;
mod process;
mod refused;
mod rehearsed;
mod settings;
mod shared;
mod shipped;
mod threads;
mod unwritable;
