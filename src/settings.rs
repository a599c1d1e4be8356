//! Words of the environment.

use kiln_array::{Error, ErrorKind, Result};

/// A variable that is set and not empty.
pub(crate) fn variable(name: &'static str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(value)) => {
            Err(strange(name, value.to_string_lossy().into_owned(), "it takes Unicode only"))
        }
    }
}

/// A variable that is 0 or 1.
pub(crate) fn switch(name: &'static str) -> Result<Option<bool>> {
    match variable(name)?.as_deref() {
        None => Ok(None),
        Some("0") => Ok(Some(false)),
        Some("1") => Ok(Some(true)),
        Some(other) => Err(strange(name, other.to_owned(), "it takes 0 or 1")),
    }
}

/// A variable that is a whole number.
pub(crate) fn number(name: &'static str) -> Result<Option<u64>> {
    let Some(word) = variable(name)? else { return Ok(None) };
    match word.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(strange(name, word, &format!("it takes a whole number from 0 to {}", u64::MAX))),
    }
}

fn strange(name: &'static str, value: String, reason: &str) -> Error {
    ErrorKind::BadSetting { name, value, reason: reason.to_owned() }.into()
}
