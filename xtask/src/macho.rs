//! Reads what a linked program for Apple's systems says of itself: Mach-O, 64 bits, one architecture.

use object::macho::{
    CPU_TYPE_ARM64, CS_ADHOC, LC_CODE_SIGNATURE, MH_EXECUTE, MH_NOUNDEFS, MH_TWOLEVEL, MachHeader64, N_EXT,
    PLATFORM_MACOS,
};
use object::read::macho::{CodeSignature, LoadCommandVariant, MachHeader as _, Nlist as _, SymbolTable};
use object::{BigEndian, Endianness, ReadRef as _};

type Header = MachHeader64<Endianness>;

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
    let header = Header::parse(file, 0).map_err(damaged)?;
    let order = header.endian().map_err(damaged)?;
    holds(header.cputype(order) == CPU_TYPE_ARM64, "not for arm64")?;
    holds(header.filetype(order) == MH_EXECUTE, "not an executable")?;
    let flags = header.flags(order);
    holds(flags.contains(MH_TWOLEVEL), "symbols are looked up in all libraries, not in one each")?;
    holds(flags.contains(MH_NOUNDEFS), "undefined symbols are left")?;
    let (mut platform, mut symbols, mut signature) = (None, None, None);
    let mut dylibs = Vec::new();
    let mut commands = header.load_commands(order, file, 0).map_err(damaged)?;
    while let Some(command) = commands.next().map_err(damaged)? {
        match command.variant().map_err(damaged)? {
            LoadCommandVariant::Symtab(table) => symbols = Some(table.symbols(order, file).map_err(damaged)?),
            LoadCommandVariant::LinkeditData(data) if command.cmd() == LC_CODE_SIGNATURE => {
                let (start, length) = (data.dataoff.get(order), data.datasize.get(order));
                signature = Some(file.read_bytes_at(start.into(), length.into()).map_err(|()| "no signature there")?);
            }
            LoadCommandVariant::BuildVersion(build, _) => platform = Some(build.platform.get(order)),
            LoadCommandVariant::Dylib(dylib) => {
                dylibs.push(text(command.string(order, dylib.dylib.name).map_err(damaged)?));
            }
            _ => {}
        }
    }
    holds(platform == Some(PLATFORM_MACOS), "not built for macOS")?;
    holds(is_ad_hoc(signature.ok_or("not signed")?)?, "signed, but not ad hoc")?;
    let imports = imports(order, &symbols.ok_or("no table of symbols")?, &dylibs)?;
    Ok(Executable { dylibs, imports })
}

/// The undefined external symbols of a table, each with its library.
fn imports(order: Endianness, table: &SymbolTable<'_, Header>, dylibs: &[String]) -> Result<Vec<Import>, String> {
    let mut imports = Vec::new();
    for entry in table.iter() {
        if entry.is_stab() || !entry.is_undefined() || !entry.n_type().contains(N_EXT) {
            continue;
        }
        let symbol = text(entry.name(order, table.strings()).map_err(damaged)?);
        // From 1; 0 and the last few numbers stand for the program itself and for a search at run time.
        let dylib = usize::from(entry.library_ordinal(order).0).checked_sub(1).and_then(|ordinal| dylibs.get(ordinal));
        let dylib = dylib.ok_or_else(|| format!("{symbol}: from none of the libraries"))?.clone();
        imports.push(Import { symbol, dylib });
    }
    Ok(imports)
}

/// Whether a signature names no signer.
fn is_ad_hoc(signature: &[u8]) -> Result<bool, String> {
    for blob in CodeSignature::parse(signature).map_err(damaged)?.blobs() {
        if let Some(directory) = blob.and_then(|blob| blob.code_directory()).map_err(damaged)? {
            return Ok(directory.header().flags.get(BigEndian).contains(CS_ADHOC));
        }
    }
    Err("a signature without a code directory".to_owned())
}

fn holds(condition: bool, otherwise: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn damaged(error: object::read::Error) -> String {
    format!("damaged, or not a 64-bit Mach-O file: {error}")
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: usize = 32;
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
            &[0x1d, 16, signature, 64],
            // `_main`: defined in section 1; `_sin`: undefined, of library 1.
            &[5, 0x0000_010f, 0, 0, 0, 0x0100_0001, 0, 0],
        ];
        let big = [0xfade_0cc0_u32, 64, 1, 0, 20, 0xfade_0c02, 44, 0x2_0001, 0x2_0002, 0, 0, 0, 0, 0, 0, 0];
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
        assert!(error_with(0, 0xce).contains("not a 64-bit Mach-O file"));
        assert_eq!(error_with(4, 7), "not for arm64");
        assert_eq!(error_with(12, 6), "not an executable");
        assert_eq!(error_with(24, 0x05), "symbols are looked up in all libraries, not in one each");
        assert_eq!(error_with(24, 0x84), "undefined symbols are left");
        assert_eq!(error_with(16, 0), "not built for macOS");
        assert!(error_with(HEADER + 4, 4).contains("load command"));
        assert_eq!(error_with(HEADER + 8, 2), "not built for macOS");
        assert_eq!(error_with(16, 3), "not signed");
        assert_eq!(error_with(HEADER + 64, 0x2a), "no table of symbols");
        assert_eq!(error_with(HEADER + 127, 0xfe), "_sin: from none of the libraries");
        assert!(error_with(HEADER + 148, 0).contains("code signature magic"));
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
