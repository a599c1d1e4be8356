//! What is said of a choice: which device and why, or what there is instead.

use kiln_array::{Device, DeviceInfo, Error, ErrorKind};

use crate::Options;
use crate::open::{Backend, devices_async, number_of};

/// What of the options the environment named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NamedBy {
    pub(crate) backend: bool,
    pub(crate) adapter: bool,
}

/// Says which device was opened, and why; `without_gpu` is why it is no GPU, where one would have been taken.
pub(crate) fn log(options: &Options, device: &Device, without_gpu: Option<&Error>) {
    let info = device.info();
    if let Some(error) = without_gpu {
        let reason = reason(error);
        log::warn!(target: "kiln", "kiln: computing on the CPU, {info}, for want of a GPU: {reason}");
    } else if options.backend.is_none() && options.adapter.is_none() {
        log::info!(target: "kiln", "kiln: computing on {info}, driver {}: the best GPU there is", info.driver);
    } else {
        log::info!(target: "kiln", "kiln: computing on {info}, driver {}: asked for by {options}", info.driver);
    }
}

fn reason(error: &Error) -> String {
    if let ErrorKind::NoDevice { reason, .. } = error.kind() { reason.clone() } else { error.to_string() }
}

/// The error of options that no device fits, with the devices that there are and the words that name them.
pub(crate) async fn refusal(options: &Options, error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::NoDevice { .. }) {
        return error;
    }
    let all = devices_async().await;
    let mut parts = match &options.adapter {
        Some(adapter) if !all.iter().enumerate().any(|(at, info)| is_named(adapter, at, info)) => {
            let what = if number_of(adapter).is_some() { "number" } else { "name" };
            vec![format!("no device has that {what}")]
        }
        _ => vec![reason(&error)],
    };
    let listed: Vec<String> = all.iter().enumerate().map(|(at, info)| format!("{at}: {info}")).collect();
    parts.push(match listed.is_empty() {
        true => "there is no device".to_owned(),
        false => format!("the devices are {}", listed.join(", ")),
    });
    if options.backend.is_some() {
        let there = |backend: &Backend| all.iter().any(|info| info.backend == backend.name());
        let words: Vec<&str> = Backend::ALL.into_iter().filter(there).map(Backend::name).collect();
        let name = if options.named_by.backend { "KILN_BACKEND" } else { "the backend" };
        parts.push(format!("{name} may be {} here", words.join(" or ")));
    }
    if let Some(adapter) = &options.adapter {
        let name = if options.named_by.adapter { "KILN_ADAPTER" } else { "the adapter" };
        parts.push(format!("{name} may be a number or a part of a name"));
        if let Some(backend) = Backend::ALL.into_iter().find(|backend| backend.name().eq_ignore_ascii_case(adapter)) {
            let how = if options.named_by.adapter { "KILN_BACKEND" } else { "`Options::backend`" };
            parts.push(format!("{backend} is a backend, for {how}"));
        }
    }
    ErrorKind::NoDevice { wanted: options.to_string(), reason: parts.join("; ") }.into()
}

/// Whether an adapter's word means a device.
fn is_named(adapter: &str, at: usize, info: &DeviceInfo) -> bool {
    match number_of(adapter) {
        Some(number) => number == at,
        None => info.name.to_lowercase().contains(&adapter.to_lowercase()),
    }
}
