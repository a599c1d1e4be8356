//! The library of scalar functions: chunks of `wgsl/math.wgsl` and `wgsl/scalar.wgsl`, included where they are called.
//!
//! A chunk starts with `//# name: NAME needs: OTHER …` and may need earlier chunks only.

const FILES: [&str; 2] = [include_str!("../wgsl/math.wgsl"), include_str!("../wgsl/scalar.wgsl")];

struct Chunk<'a> {
    name: &'a str,
    needs: Vec<&'a str>,
    text: &'a str,
}

fn chunks() -> Vec<Chunk<'static>> {
    let mut chunks = Vec::new();
    for file in FILES {
        for part in file.split("//# name: ").skip(1) {
            let (head, text) = part.split_once('\n').unwrap_or((part, ""));
            let mut words = head.split_whitespace();
            let name = words.next().unwrap_or("");
            chunks.push(Chunk { name, needs: words.filter(|word| *word != "needs:").collect(), text });
        }
    }
    chunks
}

/// The text after the chunks that it calls, in the order of the library.
pub(crate) fn prepend(text: &str) -> String {
    let chunks = chunks();
    let mut wanted: Vec<bool> = chunks.iter().map(|chunk| text.contains(&format!("{}(", chunk.name))).collect();
    // Needs point backwards, so one walk from the end closes over them.
    for at in (0..chunks.len()).rev() {
        if wanted[at] {
            for need in &chunks[at].needs {
                if let Some(known) = chunks.iter().position(|chunk| chunk.name == *need) {
                    wanted[known] = true;
                }
            }
        }
    }
    let mut out = String::new();
    for (chunk, _) in chunks.iter().zip(wanted).filter(|(_, wanted)| *wanted) {
        out.push_str(chunk.text.trim_end());
        out.push_str("\n\n");
    }
    out.push_str(text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_need_earlier_ones_that_exist() {
        let chunks = chunks();
        assert!(chunks.len() > 10);
        for (at, chunk) in chunks.iter().enumerate() {
            assert!(chunk.text.contains(&format!("fn {}(", chunk.name)), "{}", chunk.name);
            for need in &chunk.needs {
                assert!(chunks[..at].iter().any(|known| known.name == *need), "{} needs {need}", chunk.name);
            }
            // A call of another chunk is a need.
            for other in chunks.iter().filter(|other| other.name != chunk.name) {
                if chunk.text.contains(&format!("{}(", other.name)) {
                    assert!(chunk.needs.contains(&other.name), "{} calls {}", chunk.name, other.name);
                }
            }
        }
    }
}
