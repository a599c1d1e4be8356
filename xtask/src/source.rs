//! Source files of a package, and Rust text reduced to its code.

use std::fs;
use std::path::{Path, PathBuf};

/// Every file under `dir` with one of `extensions`, sorted. Build output, hidden
/// directories and directories that hold another package are passed over.
pub(crate) fn files(dir: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(current) = pending.pop() {
        let entries = fs::read_dir(&current).map_err(|error| at(&current, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| at(&current, &error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                let skipped = name.starts_with('.') || name == "target";
                if !skipped && !path.join("Cargo.toml").exists() {
                    pending.push(path);
                }
            } else if let Some(extension) = path.extension()
                && extensions.iter().any(|wanted| extension == *wanted)
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file; the error names it.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| at(path, &error))
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Rust text with comments and the contents of literals replaced by spaces.
/// Line breaks stay, so line numbers of the result are those of the source.
pub(crate) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let inert = inert_len(rest, code.chars().next_back());
        if inert == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            let (skipped, after) = rest.split_at(inert);
            code.extend(skipped.chars().map(|c| if c == '\n' { c } else { ' ' }));
            rest = after;
        }
    }
    code
}

/// Length of the comment or literal at the start of `text`, 0 if there is none.
fn inert_len(text: &str, before: Option<char>) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment_len(text);
    }
    if text.starts_with('"') {
        return quoted_len(text, '"');
    }
    if text.starts_with('\'') {
        return char_len(text);
    }
    let inside_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if inside_word { 0 } else { raw_string_len(text) }
}

/// Block comments nest.
fn block_comment_len(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// A literal between two `quote`s, with backslash escapes.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `'x'` and `'\n'` are literals; `'a` is a lifetime and stays.
fn char_len(text: &str) -> usize {
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted_len(text, '\''),
        _ => 0,
    }
}

/// `r"…"`, `r#"…"#`, `br#"…"#`, `cr#"…"#`.
fn raw_string_len(text: &str) -> usize {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| text.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"')));
    let Some(prefix) = prefix else { return 0 };
    let hashes = text[prefix.len()..].bytes().take_while(|b| *b == b'#').count();
    let open = prefix.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    text[open..].find(&close).map_or(text.len(), |at| open + at + close.len())
}

/// Line numbers, from 1, on which `path` (such as `unsafe` or `std::fs`) stands in
/// `code` as whole words.
pub(crate) fn lines_with(code: &str, path: &str) -> Vec<usize> {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    let stands_in = |line: &str| {
        line.match_indices(path)
            .any(|(at, _)| !line[..at].ends_with(of_word) && !line[at + path.len()..].starts_with(of_word))
    };
    (1..).zip(code.lines()).filter_map(|(number, line)| stands_in(line).then_some(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let inert = [
            "// unsafe\n",
            "/* a /* unsafe */ unsafe */",
            "\"unsafe \\\" unsafe\"",
            "r#\"unsafe \" unsafe\"#",
            "br\"unsafe\"",
            "//! don't: unsafe",
        ];
        for text in inert {
            assert_eq!(lines_with(&code(text), "unsafe"), [0; 0], "{text}");
        }
    }

    #[test]
    fn code_after_a_literal_is_found_on_its_line() {
        let text = "fn f<'a>(x: &'a str) -> char {\n    let q = ['\"', '\\'', 'x'];\n    unsafe { g(x) }\n}\n";
        assert_eq!(lines_with(&code(text), "unsafe"), [3]);
        let text = "let s = r\"\\\"; unsafe {}";
        assert_eq!(lines_with(&code(text), "unsafe"), [1]);
        let text = "let s = \"two\nlines\";\nunsafe {}";
        assert_eq!(lines_with(&code(text), "unsafe"), [3]);
    }

    #[test]
    fn only_whole_words_count() {
        let text = "#![forbid(unsafe_code)]\nfn not_unsafe() {}\nuse std::fs;\nuse std::fs_like;";
        assert_eq!(lines_with(&code(text), "unsafe"), [0; 0]);
        assert_eq!(lines_with(&code(text), "std::fs"), [3]);
    }
}
