//! Commands in a box of `coordd-sandbox`, without a daemon or an agent.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use coordd_sandbox::{Bind, Level, Limits, Policy, VERSION};
use tempfile::TempDir;

use crate::sandbox::program;

/// The folders of one test: what is writable in the box, and what lies beside it.
pub struct Place {
    folder: TempDir,
    /// What the box is to be.
    pub policy: Policy,
}

impl Place {
    /// A workspace `w` that can be written, a folder `t` that is the box's `/tmp`, a folder `secret`, and a file `beside`.
    pub fn new(level: Level) -> Self {
        // Not in /tmp, which the box has for itself.
        let folder = tempfile::Builder::new().prefix("cb.").tempdir_in("/var/tmp").unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["w", "t", "secret"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join("secret/key"), "the key\n").unwrap();
        std::fs::write(root.join("beside"), "as it was\n").unwrap();
        let bind = |from: &str, at: PathBuf| Bind { from: root.join(from).into(), at: at.into() };
        let temp = if level == Level::Namespaces { "/tmp".into() } else { root.join("t") };
        let policy = Policy {
            version: VERSION,
            level,
            cwd: root.join("w").into(),
            writable: vec![bind("w", root.join("w")), bind("t", temp)],
            overlays: Vec::new(),
            read_only: Vec::new(),
            pinned: Vec::new(),
            hidden: vec![root.join("secret").into()],
            proxy: false,
            limits: Limits { data_bytes: 2 << 30, file_bytes: 64 << 20, processes: 512 },
        };
        Self { folder, policy }
    }

    /// A path beside or in the workspace.
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// The command that runs a shell command in the box.
    pub fn command(&self, shell: &str) -> Command {
        let policy = self.at("policy.json");
        let mut file = File::create(&policy).unwrap();
        file.write_all(serde_json::to_string(&self.policy).unwrap().as_bytes()).unwrap();
        boxed(&policy, &["/bin/bash", "-c", shell])
    }

    /// Runs a shell command in the box to its end.
    pub fn run(&self, shell: &str) -> Output {
        self.command(shell).output().unwrap()
    }

    /// What it printed, both streams.
    pub fn say(&self, shell: &str) -> String {
        let output = self.run(&format!("{{ {shell}\n}} 2>&1"));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("{}{errors}", String::from_utf8_lossy(&output.stdout))
    }
}

/// A command in the box of the policy in a file.
pub fn boxed(policy: &Path, command: &[&str]) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell
        .args([
            "-c",
            "box=$1; policy=$2; shift 2; exec \"$box\" --policy 9 -- \"$@\" 9<\"$policy\"",
            "sh",
        ])
        .arg(program("coordd-sandbox"))
        .arg(policy)
        .args(command);
    shell
}
