//! The system's folder for caches.
//!
//! | system | folder |
//! | --- | --- |
//! | Apple's | `Library/Caches` in the user's folder |
//! | Windows | `%LOCALAPPDATA%`, or `AppData\Local` in the user's folder |
//! | others | `$XDG_CACHE_HOME`, or `.cache` in the user's folder |
//!
//! A variable that holds no absolute path counts as unset, as the XDG specification asks.

use std::ffi::OsString;
use std::path::PathBuf;

/// The variable that names the folder.
const VARIABLE: Option<&str> = if cfg!(target_vendor = "apple") {
    None
} else if cfg!(windows) {
    Some("LOCALAPPDATA")
} else {
    Some("XDG_CACHE_HOME")
};

/// The folder in that of the user.
const IN_HOME: &str = if cfg!(target_vendor = "apple") {
    "Library/Caches"
} else if cfg!(windows) {
    r"AppData\Local"
} else {
    ".cache"
};

/// The folder, whether it exists or not; `None` where the system names none.
pub(crate) fn of_system() -> Option<PathBuf> {
    choose(VARIABLE.and_then(std::env::var_os), std::env::home_dir)
}

fn choose(named: Option<OsString>, home: impl FnOnce() -> Option<PathBuf>) -> Option<PathBuf> {
    let named = named.map(PathBuf::from).filter(|folder| folder.is_absolute());
    named.or_else(|| home().filter(|home| !home.as_os_str().is_empty()).map(|home| home.join(IN_HOME)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_name_goes_before_the_users_folder() {
        let there = if cfg!(windows) { r"C:\there" } else { "/there" };
        let home = || Some(PathBuf::from(there));
        assert_eq!(choose(Some(there.into()), || None), Some(there.into()));
        assert_eq!(choose(Some(there.into()), || Some("elsewhere".into())), Some(there.into()));
        for unset in [None, Some("".into()), Some("not/absolute".into())] {
            assert_eq!(choose(unset.clone(), home), Some(PathBuf::from(there).join(IN_HOME)));
            assert_eq!(choose(unset.clone(), || Some(PathBuf::new())), None);
            assert_eq!(choose(unset, || None), None);
        }
    }
}
