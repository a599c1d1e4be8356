//! A writer of indented WGSL: lines, and blocks in braces. That is all a prelude needs.

use std::fmt::{self, Write as _};

/// Text with an indentation.
#[derive(Default)]
pub(crate) struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    /// One line.
    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) {
        for _ in 0..self.depth {
            self.text.push_str("    ");
        }
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(line);
        self.text.push('\n');
    }

    /// `head {`, the body one step further in, `}`.
    pub(crate) fn block(&mut self, head: fmt::Arguments<'_>, body: impl FnOnce(&mut Self)) {
        self.line(format_args!("{head} {{"));
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line(format_args!("}}"));
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// One formatted line.
macro_rules! line {
    ($w:expr, $($arg:tt)*) => { $w.line(format_args!($($arg)*)) };
}
pub(crate) use line;
