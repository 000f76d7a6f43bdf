//! Rules about what the programs are built from. Licences and bans are cargo-deny's, by `deny.toml`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::{none, read, root};

/// Clients, servers and ciphers. The daemon has no network; agents and bridges do that, beside it.
const NOT_IN_DAEMON: [&str; 14] = [
    "async-nats",
    "h2",
    "http",
    "hyper",
    "hyper-util",
    "native-tls",
    "openssl",
    "quinn",
    "reqwest",
    "ring",
    "rustls",
    "tungstenite",
    "ureq",
    "webpki",
];

/// What the core may be built on, each without its standard-library part.
const IN_CORE: [&str; 5] = ["proto-words", "serde", "serde_json", "sha2", "thiserror"];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// All packages built for this machine. For others they need not have been fetched.
fn packages() -> Vec<Value> {
    let version = cargo_host();
    let text = cargo(&["metadata", "--format-version", "1", "--filter-platform", &version]);
    let metadata: Value = serde_json::from_str(&text).expect("cargo metadata writes JSON");
    let packages = metadata["packages"].as_array().expect("packages").clone();
    assert!(packages.len() > 50, "cargo metadata lists {} packages only", packages.len());
    packages
}

fn cargo_host() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("rustc writes UTF-8");
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc -vV names the host").to_owned()
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

/// `(name, source)` of each entry in Cargo.lock, all platforms included. Ours have no source.
fn locked() -> Vec<(String, Option<String>)> {
    let lock = read("Cargo.lock");
    let value = |entry: &str, key: &str| {
        let line = entry.lines().find_map(|line| line.strip_prefix(key));
        line.map(|line| line.trim_matches('"').to_owned())
    };
    let entries = lock.split("[[package]]").skip(1);
    entries
        .map(|entry| (value(entry, "name = ").expect("a name"), value(entry, "source = ")))
        .collect()
}

/// Neither reachable from outside nor able to leak a key: it has nothing to do so with.
#[test]
fn the_daemon_has_no_http_client_and_no_tls() {
    for features in [&[] as &[&str], &["--no-default-features"]] {
        let tree = ["tree", "-p", "coordd", "-e", "normal", "--prefix", "none"];
        let tree = cargo(&[&tree, features].concat());
        let names: BTreeSet<_> =
            tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert!(names.contains("tokio") && names.contains("coordd-core"), "not its tree: {tree}");
        let found: Vec<_> = NOT_IN_DAEMON.iter().filter(|it| names.contains(**it)).collect();
        assert!(found.is_empty(), "in the daemon's dependency tree: {found:?}");
    }
}

/// The other half of the rule above: what the daemon must not have is in the agent process.
#[test]
fn the_agent_process_has_the_http_client() {
    let tree = cargo(&["tree", "-p", "coordd-worker", "-e", "normal", "--prefix", "none"]);
    for name in ["reqwest v", "rustls v", "ring v"] {
        assert!(
            tree.lines().any(|line| line.starts_with(name)),
            "no {name} in the tree; rename it in both"
        );
    }
}

#[test]
fn the_core_is_built_on_nothing_that_needs_std() {
    let packages = packages();
    let is_core = |it: &&Value| ["coordd-core", "proto-words"].contains(&text(it, "name"));
    let core: Vec<_> = packages.iter().filter(is_core).collect();
    assert_eq!(core.len(), 2, "the core and the words that it uses");
    let mut complaints = Vec::new();
    let dependencies =
        core.iter().flat_map(|it| it["dependencies"].as_array().expect("dependencies"));
    for dependency in dependencies.filter(|it| it["kind"].is_null()) {
        let name = text(dependency, "name");
        let features = dependency["features"].as_array().expect("features");
        if !IN_CORE.contains(&name) {
            complaints.push(format!("{name} is not one of {IN_CORE:?}"));
        }
        if dependency["uses_default_features"] != Value::Bool(false) {
            complaints.push(format!("{name} has its default features, which need std"));
        }
        if features.iter().any(|feature| feature == "std") {
            complaints.push(format!("{name} has its feature std"));
        }
    }
    none("the core is no_std", &complaints);
}

#[test]
fn everything_comes_from_crates_io() {
    let strange = locked().into_iter().filter_map(|(name, source)| {
        let source = source.filter(|source| source != CRATES_IO)?;
        Some(format!("{name}: {source}"))
    });
    none("a source other than crates.io", &strange.collect::<Vec<_>>());
    let ours: BTreeSet<_> =
        locked().into_iter().filter(|it| it.1.is_none()).map(|(name, _)| name).collect();
    let members = [
        "coordctl",
        "coordd",
        "coordd-bridge",
        "coordd-common",
        "coordd-core",
        "coordd-sandbox",
        "coordd-worker",
        "proto",
        "proto-words",
        "tests",
    ];
    assert_eq!(ours, members.map(str::to_owned).into(), "packages without a source are ours");
}

/// Later versions of it are not it any more.
#[test]
fn bincode_is_pinned() {
    let packages = packages();
    let users: Vec<_> = packages
        .iter()
        .filter(|package| package["source"].is_null())
        .flat_map(|package| {
            package["dependencies"]
                .as_array()
                .expect("dependencies")
                .iter()
                .map(move |d| (package, d))
        })
        .filter(|(_, dependency)| text(dependency, "name") == "bincode")
        .map(|(package, dependency)| (text(package, "name"), text(dependency, "req")))
        .collect();
    assert_eq!(users, [("proto", "=2.0.1")], "one crate uses bincode, at exactly this version");
}
