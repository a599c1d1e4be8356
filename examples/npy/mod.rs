//! What `reductions` and `accumulate` share: `.npy` files on their way to a device, and values on one line of text.
//!
//! What enters: a path. What leaves: the values of a file, or an error on one line that names the file. npyz reads the
//! header; sizes are checked before it multiplies them and before memory is asked for.

use std::fmt;
use std::path::{Path, PathBuf};

use kiln::{Array, Device, Element, HostArray};
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

/// What a `.npy` file holds.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// Lengths of the axes; the reverse of the array's where the file is in Fortran order.
    stored: Vec<usize>,
    order: Order,
    pub(crate) values: Values,
}

/// Values in the order in which they lie in the file.
pub(crate) enum Values {
    Bool(Vec<bool>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    F32(Vec<f32>),
}

/// Why a file cannot be read.
#[derive(Debug)]
pub(crate) struct Error {
    path: PathBuf,
    reason: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for Error {}

/// The file that the first argument names; without one, the monthly temperatures of the eastern Pacific.
pub(crate) fn from_args() -> Result<File, Error> {
    let path = std::env::args_os().nth(1).map_or_else(
        || {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            root.join("examples/data/sea_surface_temperature.npy")
        },
        PathBuf::from,
    );
    read(&path).map_err(|reason| Error { path, reason })
}

/// What a file holds, or why it cannot be read.
pub(crate) fn read(path: &Path) -> Result<File, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let (text, data) = check(&bytes)?;
    let plain = plain(text);
    let header = NpyHeader::from_reader(&plain[..]).map_err(|error| {
        let message = error.to_string();
        if let Some(descr) = descr(text).filter(|_| message.starts_with("invalid type string")) {
            return unsupported(&descr);
        }
        // The parser draws a frame around the place; the first words say what is wrong.
        let words = message.split("-->").next().unwrap_or_default();
        let words = words.trim().trim_end_matches(':');
        format!("not a readable .npy file: {words}")
    })?;
    let lens = header.shape().iter().map(|&len| usize::try_from(len));
    let mut stored: Vec<usize> = lens.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let size: usize = stored.iter().product();
    if header.order() == Order::Fortran {
        stored.reverse();
    }
    Ok(File { path: path.to_owned(), stored, order: header.order(), values: decode(&header.dtype(), data, size)? })
}

/// A whole header that npyz reads as NumPy reads `text`: numbers without Python 2's `L`, types with an order of bytes.
fn plain(text: &[u8]) -> Vec<u8> {
    let mut header = Vec::with_capacity(text.len() + 16);
    let mut quote = None;
    for (at, &byte) in text.iter().enumerate() {
        let before = at.checked_sub(1).map_or(0, |at| text[at]);
        match quote {
            None if byte == b'L' && before.is_ascii_digit() => continue,
            None if matches!(byte, b'\'' | b'"') => {
                quote = Some(byte);
                header.push(byte);
                // The machine's order is that of files without a mark: little, as everywhere Kiln runs.
                match &text[at + 1..] {
                    [b'=', ..] => header.push(b'<'),
                    [b'b' | b'i' | b'u' | b'f', digit, end, ..] if digit.is_ascii_digit() && *end == byte => {
                        header.push(if *digit == b'1' { b'|' } else { b'<' });
                    }
                    _ => {}
                }
                continue;
            }
            Some(open) if byte == open => quote = None,
            Some(open) if byte == b'=' && before == open => continue,
            _ => {}
        }
        header.push(byte);
    }
    // Version 3: as 2, in UTF-8. The text has 10,000 bytes at most.
    let len = u32::try_from(header.len()).unwrap_or(u32::MAX);
    [b"\x93NUMPY\x03\x00", &len.to_le_bytes()[..], &header].concat()
}

/// The parts of a header that are in no quotes.
fn outside_quotes(header: &[u8]) -> Vec<&[u8]> {
    let (mut parts, mut rest) = (Vec::new(), header);
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\'' | b'"')) {
        parts.push(&rest[..at]);
        let inside = &rest[at + 1..];
        let end = inside.iter().position(|&byte| byte == rest[at]).unwrap_or(inside.len());
        rest = inside.get(end + 1..).unwrap_or_default();
    }
    parts.push(rest);
    parts
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')
}

fn unsupported(descr: &str) -> String {
    format!("no element type for {descr}; there are bool '|b1', i32 '<i4', u32 '<u4', f32 '<f4'")
}

/// The element type as the header spells it, where npyz cannot tell.
fn descr(header: &[u8]) -> Option<String> {
    let header = String::from_utf8_lossy(header);
    let (_, value) = header.split_once("descr")?;
    let (_, value) = value.split_once(':')?;
    let (descr, _) = value.split_once(',')?;
    Some(descr.trim().escape_debug().to_string().replace("\\'", "'"))
}

fn decode(dtype: &DType, data: &[u8], size: usize) -> Result<Values, String> {
    let DType::Plain(plain) = dtype else {
        return Err(unsupported(&dtype.descr()));
    };
    let width = match (plain.type_char(), plain.size_field()) {
        (TypeChar::Bool, 1) => 1,
        (TypeChar::Int | TypeChar::Uint | TypeChar::Float, 4) => 4,
        _ => return Err(unsupported(&dtype.descr())),
    };
    let needed = size.checked_mul(width);
    let data = needed.and_then(|needed| data.get(..needed)).ok_or_else(|| {
        let held = data.len() / width;
        format!("truncated: the header announces {size} elements, the file holds {held}")
    })?;
    let big = plain.endianness() == Endianness::Big;
    let words = data
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&word| if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) });
    Ok(match plain.type_char() {
        TypeChar::Bool => Values::Bool(data.iter().map(|&byte| byte != 0).collect()),
        TypeChar::Int => Values::I32(words.map(u32::cast_signed).collect()),
        TypeChar::Uint => Values::U32(words.collect()),
        _ => Values::F32(words.map(f32::from_bits).collect()),
    })
}

/// The header, after checks of what npyz takes for granted: it is short and flat, and its shape has a size.
///
/// Returns the header's text and what follows it.
fn check(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    const NOT: &str = "not a readable .npy file";
    // NumPy reads no longer header either, unless told to trust the file.
    const LONGEST: usize = 10_000;
    let (at, len) = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', version @ (0 | 4..), minor, ..] => {
            return Err(format!("{NOT}: its version is {version}.{minor}; there are 1.0, 2.0 and 3.0"));
        }
        [] => return Err(format!("{NOT}: it is empty")),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => (10, u32::from_le_bytes([*a, *b, 0, 0])),
        [0x93, b'N', b'U', b'M', b'P', b'Y', _, _, a, b, c, d, ..] => (12, u32::from_le_bytes([*a, *b, *c, *d])),
        _ => return Err(format!("{NOT}: it does not begin with the bytes of one")),
    };
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if len > LONGEST {
        return Err(format!("{NOT}: its header has {len} bytes, over {LONGEST}"));
    }
    let parts = bytes.get(at..).and_then(|rest| rest.split_at_checked(len));
    let (header, data) = parts.ok_or_else(|| format!("{NOT}: it ends within its header"))?;
    let mut depth = 0usize;
    for byte in header {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 16 {
            return Err(format!("{NOT}: its header nests more than 16 brackets"));
        }
    }
    // Every number of the header counts, so that no shape slips through; their product is small for any file that fits.
    // A word with a digit in it, outside of quotes, is a decimal number, or a `long` of Python 2.
    let words = outside_quotes(header).into_iter().flat_map(|text| text.split(|&byte| !is_of_word(byte)));
    for word in words.filter(|word| word.iter().any(u8::is_ascii_digit)) {
        let digits = word.strip_suffix(b"L").unwrap_or(word);
        if !digits.iter().all(u8::is_ascii_digit) {
            let word = word.escape_ascii();
            return Err(format!("{NOT}: its header has {word} where a decimal number is expected"));
        }
    }
    let numbers = header.split(|byte| !byte.is_ascii_digit());
    let size = numbers.filter(|digits| !digits.is_empty()).try_fold(1u64, |size, digits| {
        let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        size.checked_mul(number.max(1))
    });
    match size {
        Some(_) => Ok((header, data)),
        None => Err(format!("{NOT}: its shape has too many elements")),
    }
}

impl File {
    /// The values as an array on a device; transposed there where the file is in Fortran order.
    pub(crate) fn upload<T: Element>(&self, gpu: &Device, values: &[T]) -> kiln::Result<Array<T>> {
        let array = gpu.array(values, &self.stored[..])?;
        Ok(match self.order {
            Order::C => array,
            Order::Fortran => array.transpose(),
        })
    }
}

/// Values on one line: all of a few, the ends of many.
pub(crate) fn brief<T: Element>(host: &HostArray<T>) -> String {
    const ENDS: usize = 3;
    let words = |values: &[T]| {
        let words: Vec<_> = values.iter().map(|value| format!("{value:?}")).collect();
        words.join(", ")
    };
    match host.as_slice() {
        [one] if host.shape().is_empty() => format!("{one:?}"),
        few if few.len() <= 2 * ENDS => format!("[{}]", words(few)),
        many => {
            let (first, last) = (&many[..ENDS], &many[many.len() - ENDS..]);
            format!("[{}, ..., {}]", words(first), words(last))
        }
    }
}
