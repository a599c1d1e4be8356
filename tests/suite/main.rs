//! The one suite: written against the public API, run on every backend that this machine has.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `harness` | the backends, opened once; what ran and what did not |
//! | `naive`, `inputs` | the oracle of plain loops; shapes, views and values to try |
//! | `broadcast`, `views`, `reduce`, `scan`, `dtypes` | random shapes, views, axes, types and operators against the oracle |
//! | `bits` | the same bits on every backend, under every schedule, in every run |
//! | `accuracy` | errors in units of the last place |
//! | `recordings` | what is dispatched, read off the recordings |
//! | `errors` | bad input: the kind of error and its words |
//! | `concurrency`, `waiting`, `own_device` | many threads; futures; a program's own wgpu device |
//! | `runtimes` | futures under a runtime with timers, while the device is busy |
//! | `cases` | inputs from public bug reports, by their ids |
//!
//! `KILN_TEST_BACKENDS=cpu,wgpu` chooses backends, `KILN_TEST_REQUIRE=cpu,wgpu` makes one that cannot run a failure,
//! `KILN_TEST_REPORT=FILE` collects what ran, `KILN_TEST_LONG=1` adds the cases that need much memory or time.

#![expect(clippy::float_cmp, reason = "results that must be exact are compared exactly")]
#![expect(clippy::cast_possible_truncation, reason = "test data is made from small or wrapping numbers")]

mod accuracy;
mod bits;
mod broadcast;
mod cases;
mod concurrency;
mod dtypes;
mod errors;
mod harness;
mod inputs;
mod naive;
#[cfg(feature = "wgpu")]
mod own_device;
mod random;
mod recordings;
mod reduce;
mod runtimes;
mod scan;
mod views;
mod waiting;
