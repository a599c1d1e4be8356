//! The command line: which device, which rows, how many samples.

use std::path::PathBuf;

use kiln::Backend;

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
        let mut measured = false;
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match &*word {
                "--bench" => measured = true,
                "--samples" => asked.samples = count(&word, words.next())?,
                "--pairs" => asked.pairs = count(&word, words.next())?,
                "--keep" => asked.keep = Some(file(&word, words.next())?),
                "--from" => asked.from.push(file(&word, words.next())?),
                "--svg" => asked.svg = Some(file(&word, words.next())?),
                "--only" => {
                    let name = words.next().unwrap_or_default();
                    let names = Row::ALL.map(Row::name).join(", ");
                    let row = Row::named(&name).ok_or_else(|| format!("--only {name}: there are {names}"))?;
                    asked.rows.push(row);
                }
                "--backend" => {
                    let name = words.next().unwrap_or_default();
                    let all = [Backend::Vulkan, Backend::Metal, Backend::Dx12];
                    let known = all.into_iter().find(|backend| backend.name() == name);
                    asked.backend = Some(known.ok_or_else(|| format!("--backend {name}: {USAGE}"))?.name());
                }
                _ => return Err(format!("{word}: {USAGE}")),
            }
        }
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
}

fn file(option: &str, word: Option<String>) -> Result<PathBuf, String> {
    word.map(PathBuf::from).ok_or_else(|| format!("{option} takes a file; {USAGE}"))
}

fn count(option: &str, word: Option<String>) -> Result<usize, String> {
    let word = word.unwrap_or_default();
    let number: usize = word.parse().map_err(|error| format!("{option} {word}: {error}; {USAGE}"))?;
    if number == 0 { Err(format!("{option} 0: at least one; {USAGE}")) } else { Ok(number) }
}
