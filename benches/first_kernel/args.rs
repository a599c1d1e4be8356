//! The command line: which device, which rows, how many samples.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use kiln::Backend;
use lexopt::{Arg::Long, Parser, ValueExt as _};

use crate::rows::Row;

const USAGE: &str = "there are --backend vulkan|metal|dx12, --samples N, --pairs N, --only ROW, --keep FILE, --from FILE and \
                     --svg FILE";

/// What the command line asks for.
pub(crate) struct Asked {
    /// The word for `KILN_BACKEND`; what the environment says if `None`.
    pub(crate) backend: Option<&'static str>,
    /// Samples of each row and column.
    pub(crate) samples: usize,
    /// Samples of those columns that are compared in pairs.
    pub(crate) pairs: usize,
    pub(crate) rows: Vec<Row>,
    /// The new file for all samples.
    pub(crate) keep: Option<PathBuf>,
    /// Files whose samples are reported; measured if there is none.
    pub(crate) from: Vec<PathBuf>,
    /// Where the chart is drawn.
    pub(crate) svg: Option<PathBuf>,
}

impl Asked {
    /// Reads the command line. `None` unless `cargo bench` runs the program: there is nothing to test.
    pub(crate) fn read(words: Vec<String>) -> Result<Option<Self>, String> {
        let (keep, from, svg) = (None, Vec::new(), None);
        let mut asked = Self { backend: None, samples: 20, pairs: 100, rows: Vec::new(), keep, from, svg };
        let measured = asked.fill(Parser::from_args(words)).map_err(|error| format!("{error}; {USAGE}"))?;
        if !measured {
            println!("not measured: run it with `cargo bench`");
            return Ok(None);
        }
        if !asked.from.is_empty() && (asked.keep.is_some() || asked.backend.is_some() || !asked.rows.is_empty()) {
            return Err(format!("--from reports what was measured, whole; {USAGE}"));
        }
        if asked.rows.is_empty() {
            asked.rows = Row::ALL.to_vec();
        }
        Ok(Some(asked))
    }

    /// Takes the options; whether `cargo bench` runs the program.
    fn fill(&mut self, mut words: Parser) -> Result<bool, lexopt::Error> {
        let mut measured = false;
        while let Some(word) = words.next()? {
            match word {
                Long("bench") => measured = true,
                Long("samples") => self.samples = words.value()?.parse::<NonZeroUsize>()?.get(),
                Long("pairs") => self.pairs = words.value()?.parse::<NonZeroUsize>()?.get(),
                Long("keep") => self.keep = Some(words.value()?.into()),
                Long("from") => self.from.push(words.value()?.into()),
                Long("svg") => self.svg = Some(words.value()?.into()),
                Long("only") => self.rows.push(words.value()?.parse_with(row)?),
                Long("backend") => self.backend = Some(words.value()?.parse_with(backend)?),
                _ => return Err(word.unexpected()),
            }
        }
        Ok(measured)
    }
}

fn row(name: &str) -> Result<Row, String> {
    Row::named(name).ok_or_else(|| format!("there are {}", Row::ALL.map(Row::name).join(", ")))
}

fn backend(name: &str) -> Result<&'static str, String> {
    let mut all = [Backend::Vulkan, Backend::Metal, Backend::Dx12].into_iter().map(Backend::name);
    all.find(|known| *known == name).ok_or_else(|| "no such GPU backend".to_owned())
}
