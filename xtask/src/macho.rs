//! Reads what a linked program for Apple's systems says of itself: Mach-O, 64 bits, one architecture.
//!
//! The layout is that of Apple's `mach-o/loader.h`, `mach-o/nlist.h` and, for the signature, xnu's `cs_blobs.h`.

const MAGIC: usize = 0xfeed_facf;
const CPU_ARM64: usize = 0x0100_000c;
const MH_EXECUTE: usize = 2;
const MH_NOUNDEFS: usize = 0x1;
const MH_TWOLEVEL: usize = 0x80;
const HEADER: usize = 32;
const COMMAND: usize = 8;

const LC_SYMTAB: usize = 0x2;
const LC_CODE_SIGNATURE: usize = 0x1d;
const LC_BUILD_VERSION: usize = 0x32;
/// Load, load weakly, re-export, load upwards: the commands whose places number the libraries.
const LC_DYLIBS: [usize; 4] = [0xc, 0x8000_0018, 0x8000_001f, 0x8000_0023];
const PLATFORM_MACOS: usize = 1;

const NLIST: usize = 16;
const N_STAB: u8 = 0xe0;
const N_TYPE: u8 = 0x0e;
const N_EXT: u8 = 0x01;

const EMBEDDED_SIGNATURE: usize = 0xfade_0cc0;
const CODE_DIRECTORY: usize = 0xfade_0c02;
const CS_ADHOC: usize = 0x2;

/// A program for macOS on arm64, linked to the end and signed ad hoc.
#[derive(Debug, PartialEq)]
pub(crate) struct Executable {
    /// The install names of the libraries it loads, in their order.
    pub(crate) dylibs: Vec<String>,
    pub(crate) imports: Vec<Import>,
}

/// A symbol that is not the program's own.
#[derive(Debug, PartialEq)]
pub(crate) struct Import {
    pub(crate) symbol: String,
    /// The install name of the library that must have it.
    pub(crate) dylib: String,
}

/// Reads a program; the error says what is missing or different.
pub(crate) fn read(file: &[u8]) -> Result<Executable, String> {
    holds(word(file, 0)? == MAGIC, "not a 64-bit Mach-O file")?;
    holds(word(file, 4)? == CPU_ARM64, "not for arm64")?;
    holds(word(file, 12)? == MH_EXECUTE, "not an executable")?;
    let flags = word(file, 24)?;
    holds(flags & MH_TWOLEVEL != 0, "symbols are looked up in all libraries, not in one each")?;
    holds(flags & MH_NOUNDEFS != 0, "undefined symbols are left")?;
    let (mut platform, mut symbols, mut signature) = (None, None, None);
    let mut dylibs = Vec::new();
    let mut at = HEADER;
    for _ in 0..word(file, 16)? {
        let (kind, size) = (word(file, at)?, word(file, at + 4)?);
        holds(size >= COMMAND, "a load command without a length")?;
        let command = part(file, at, size)?;
        match kind {
            LC_SYMTAB => symbols = Some(command),
            LC_CODE_SIGNATURE => signature = Some(part(file, word(command, 8)?, word(command, 12)?)?),
            LC_BUILD_VERSION => platform = Some(word(command, 8)?),
            _ if LC_DYLIBS.contains(&kind) => dylibs.push(text(command, word(command, 8)?)?),
            _ => {}
        }
        at += size;
    }
    holds(platform == Some(PLATFORM_MACOS), "not built for macOS")?;
    holds(is_ad_hoc(signature.ok_or("not signed")?)?, "signed, but not ad hoc")?;
    let imports = imports(file, symbols.ok_or("no table of symbols")?, &dylibs)?;
    Ok(Executable { dylibs, imports })
}

/// The undefined external symbols of a table, each with its library.
fn imports(file: &[u8], table: &[u8], dylibs: &[String]) -> Result<Vec<Import>, String> {
    let (start, count) = (word(table, 8)?, word(table, 12)?);
    let strings = part(file, word(table, 16)?, word(table, 20)?)?;
    let mut imports = Vec::new();
    for index in 0..count {
        let entry = part(file, start + index * NLIST, NLIST)?;
        if entry[4] & (N_STAB | N_TYPE | N_EXT) != N_EXT {
            continue;
        }
        let symbol = text(strings, word(entry, 0)?)?;
        // From 1; 0 and the last few numbers stand for the program itself and for a search at run time.
        let dylib = usize::from(entry[7]).checked_sub(1).and_then(|ordinal| dylibs.get(ordinal));
        let dylib = dylib.ok_or_else(|| format!("{symbol}: from none of the libraries"))?.clone();
        imports.push(Import { symbol, dylib });
    }
    Ok(imports)
}

/// Whether a signature names no signer.
fn is_ad_hoc(signature: &[u8]) -> Result<bool, String> {
    holds(big(signature, 0)? == EMBEDDED_SIGNATURE, "not a signature")?;
    for index in 0..big(signature, 8)? {
        let blob = big(signature, 12 + index * 8 + 4)?;
        if big(signature, blob)? == CODE_DIRECTORY {
            return Ok(big(signature, blob + 12)? & CS_ADHOC != 0);
        }
    }
    Err("a signature without a code directory".to_owned())
}

fn holds(condition: bool, otherwise: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn part(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], String> {
    let part = bytes.get(at..).and_then(|rest| rest.get(..length));
    part.ok_or_else(|| format!("cut off: {length} bytes at {at} of {}", bytes.len()))
}

/// The four bytes at `at`.
fn four(bytes: &[u8], at: usize) -> Result<[u8; 4], String> {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk());
    four.copied().ok_or_else(|| format!("cut off: 4 bytes at {at} of {}", bytes.len()))
}

fn word(bytes: &[u8], at: usize) -> Result<usize, String> {
    Ok(u32::from_le_bytes(four(bytes, at)?) as usize)
}

/// Numbers of a signature are big endian.
fn big(bytes: &[u8], at: usize) -> Result<usize, String> {
    Ok(u32::from_be_bytes(four(bytes, at)?) as usize)
}

/// The text at `at`, which ends with a zero.
fn text(bytes: &[u8], at: usize) -> Result<String, String> {
    let rest = bytes.get(at..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == 0).ok_or_else(|| format!("cut off: a name at {at}"))?;
    Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &[u8; 16] = b"/usr/lib/libm\0\0\0";

    /// A program that imports `_sin` from the one library that it loads, with `_main` of its own.
    fn sample() -> Vec<u8> {
        let at = |command: usize| u32::try_from(HEADER + command).expect("a small file");
        let (table, strings, signature) = (at(104), at(136), at(148));
        let little = [
            [0xfeed_facf, 0x0100_000c, 0, 2, 4, 104, 0x85, 0].as_slice(),
            &[0x32, 24, 1, 0xb_0000, 0xb_0000, 0],
            &[0xc, 40, 24, 0, 0, 0],
            &NAME.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four)).collect::<Vec<_>>(),
            &[0x2, 24, table, 2, strings, 12],
            &[0x1d, 16, signature, 36],
            // `_main`: defined in section 1; `_sin`: undefined, of library 1.
            &[5, 0x0000_010f, 0, 0, 0, 0x0100_0001, 0, 0],
        ];
        let big = [0xfade_0cc0_u32, 36, 1, 0, 20, 0xfade_0c02, 16, 0x2_0400, 0x2_0002];
        let mut file: Vec<u8> = little.concat().iter().flat_map(|word| word.to_le_bytes()).collect();
        file.extend(b"_sin\0_main\0\0");
        file.extend(big.iter().flat_map(|word| word.to_be_bytes()));
        file
    }

    /// The error of a sample with `byte` at `at`.
    fn error_with(at: usize, byte: u8) -> String {
        let mut file = sample();
        file[at] = byte;
        read(&file).expect_err("a damaged file")
    }

    #[test]
    fn a_program_names_its_libraries_and_imports() {
        let dylib = "/usr/lib/libm".to_owned();
        let import = Import { symbol: "_sin".to_owned(), dylib: dylib.clone() };
        assert_eq!(read(&sample()), Ok(Executable { dylibs: vec![dylib], imports: vec![import] }));
    }

    #[test]
    fn anything_else_is_told() {
        assert_eq!(error_with(0, 0xce), "not a 64-bit Mach-O file");
        assert_eq!(error_with(4, 7), "not for arm64");
        assert_eq!(error_with(12, 6), "not an executable");
        assert_eq!(error_with(24, 0x05), "symbols are looked up in all libraries, not in one each");
        assert_eq!(error_with(24, 0x84), "undefined symbols are left");
        assert_eq!(error_with(16, 0), "not built for macOS");
        assert_eq!(error_with(HEADER + 4, 4), "a load command without a length");
        assert_eq!(error_with(HEADER + 8, 2), "not built for macOS");
        assert_eq!(error_with(16, 3), "not signed");
        assert_eq!(error_with(HEADER + 64, 0xb), "no table of symbols");
        assert_eq!(error_with(HEADER + 127, 0xfe), "_sin: from none of the libraries");
        assert_eq!(error_with(HEADER + 148, 0), "not a signature");
        assert_eq!(error_with(HEADER + 168, 0), "a signature without a code directory");
        assert_eq!(error_with(HEADER + 183, 0), "signed, but not ad hoc");
        assert!(read(b"\x7fELF\x02\x01\x01\0").is_err());
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error() {
        let file = sample();
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "{length} bytes of {}", file.len());
        }
    }

    #[test]
    fn no_damaged_byte_panics() {
        for at in 0..sample().len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut file = sample();
                file[at] = byte;
                // Some bytes mean nothing here; what counts is that this returns.
                let _ = read(&file);
            }
        }
    }
}
