//! The environment of a command in a box, and what it may use up.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use coordd_sandbox::{Level, Limits, PROXY_PORT};

use super::{Walls, caches, places};

/// Bytes of one file that a command writes: larger ones are a mistake more often than a build.
const FILE_BYTES_MAX: u64 = 8 << 30;
/// Processes and threads of one command at once: room for a large build, and none for a bomb.
const PROCESSES_MAX: u32 = 4_096;
/// Memory of one process is half of the machine's, but between these.
const DATA_BYTES: std::ops::RangeInclusive<u64> = (2 << 30)..=(32 << 30);

/// What a command's environment has in a box, and what not: none takes the variable out.
pub(crate) fn environment(
    walls: &Walls,
    given: &BTreeMap<OsString, OsString>,
) -> Vec<(OsString, Option<OsString>)> {
    let mut changes: Vec<(OsString, Option<OsString>)> =
        places::LEADING_OUT.iter().map(|name| (OsString::from(name), None)).collect();
    let temp = match walls.level {
        Level::Namespaces => PathBuf::from("/tmp"),
        Level::Landlock => walls.temp(),
    };
    for name in ["TMPDIR", "TMP", "TEMP"] {
        changes.push((name.into(), Some(temp.clone().into())));
    }
    changes.push(("COORDD_BOXED".into(), Some("1".into())));
    if walls.level == Level::Namespaces {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            changes.push((name.into(), Some(proxy.clone().into())));
        }
        for name in ["NO_PROXY", "no_proxy"] {
            changes.push((name.into(), Some("localhost,127.0.0.1,::1".into())));
        }
        changes.push(("ALL_PROXY".into(), None));
        changes.push(("all_proxy".into(), None));
    }
    let kept = walls.level == Level::Namespaces && walls.abilities.overlays;
    changes.extend(caches::variables(&temp, walls.home.as_deref(), given, kept));
    changes
}

pub(super) fn limits() -> Limits {
    let memory = rustix::system::sysinfo();
    let bytes = memory.totalram.saturating_mul(u64::from(memory.mem_unit.max(1)));
    Limits {
        data_bytes: (bytes / 2).clamp(*DATA_BYTES.start(), *DATA_BYTES.end()),
        file_bytes: FILE_BYTES_MAX,
        processes: PROCESSES_MAX,
    }
}
