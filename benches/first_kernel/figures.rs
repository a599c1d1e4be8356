//! The figures of one sample, and the line in which a child hands them to its parent.

use std::time::Duration;

/// Names and figures: milliseconds, and counts.
#[derive(Clone, Default, Debug)]
pub(crate) struct Figures(Vec<(String, f64)>);

/// What a line of figures begins with.
const MARK: &str = "figures";

impl Figures {
    pub(crate) fn set(&mut self, name: &str, figure: f64) {
        self.0.push((name.to_owned(), figure));
    }

    /// Sets a time, in milliseconds.
    pub(crate) fn time(&mut self, name: &str, time: Duration) {
        self.set(name, time.as_secs_f64() * 1e3);
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| known == name).map(|&(_, figure)| figure)
    }

    /// The sum of some figures, if all of them are there.
    pub(crate) fn sum(&self, names: &[&str]) -> Option<f64> {
        names.iter().map(|name| self.get(name)).sum()
    }

    /// One line, without its end.
    pub(crate) fn line(&self) -> String {
        let words = self.0.iter().map(|(name, figure)| format!(" {name}={figure:.6}"));
        format!("{MARK}{}", words.collect::<String>())
    }

    /// Reads a line; `None` if it is something else.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        if words.next()? != MARK {
            return None;
        }
        let figures = words.map(|word| {
            let (name, figure) = word.split_once('=')?;
            Some((name.to_owned(), figure.parse().ok()?))
        });
        figures.collect::<Option<_>>().map(Self)
    }
}
