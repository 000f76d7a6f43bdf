use std::os::unix::fs::symlink;

use serde_json::json;

use super::PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
use super::rule::RULE_LEN_MAX;
use super::*;

mod attacks;
mod spellings;
mod work;

const MODES: [PermissionMode; 5] = [Default, AcceptEdits, Plan, BypassPermissions, DontAsk];

struct World {
    _dir: tempfile::TempDir,
    root: PathBuf,
    rules: RuleTexts,
}

/// A workspace, a scratchpad, another folder, and ways out of the workspace.
fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for folder in ["ws/src", "ws/.git", "scratch", "extra", "outside"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    symlink(root.join("outside"), root.join("ws/out")).unwrap();
    symlink(root.join("outside/new"), root.join("ws/dangling")).unwrap();
    symlink("src", root.join("ws/in")).unwrap();
    symlink(".git", root.join("ws/g")).unwrap();
    World { _dir: dir, root, rules: RuleTexts::default() }
}

impl World {
    fn with(mut self, allow: &[&str], ask: &[&str], deny: &[&str]) -> Self {
        let texts = |rules: &[&str]| rules.iter().map(|it| (*it).to_owned()).collect();
        self.rules = RuleTexts { allow: texts(allow), ask: texts(ask), deny: texts(deny) };
        self
    }

    fn permissions(&self, mode: PermissionMode) -> Permissions {
        let workspace = Workspace {
            cwd: self.root.join("ws"),
            scratchpad: Some(self.root.join("scratch")),
            additional_dirs: vec![self.root.join("extra")],
            home: Some(self.root.clone()),
            places: self.places(),
            shell: ShellSettings::default(),
        };
        Permissions::new(mode, &self.rules, &workspace).unwrap()
    }

    fn places(&self) -> Places {
        Places {
            agent_state: Some(self.root.join(".local/state/coordd/sessions/s1/agents/a1")),
            socket: Some(self.root.join("run/coordd/coordd.sock")),
            config_home: None,
            temp: Some(self.root.join("tmp")),
            folder_only: false,
        }
    }

    fn full(&self, mode: PermissionMode, tool: &str, argument: &str) -> Decision {
        let input = match tool {
            "Bash" => json!({ "command": argument }),
            "Grep" | "Glob" => json!({ "pattern": "x", "path": argument }),
            _ => json!({ "file_path": argument }),
        };
        self.permissions(mode).decide(tool, &input)
    }

    /// `allow`, `ask` or `deny`.
    fn decide(&self, mode: PermissionMode, tool: &str, argument: &str) -> &'static str {
        match self.full(mode, tool, argument) {
            Decision::Allow => "allow",
            Decision::Ask { .. } => "ask",
            Decision::Deny { .. } => "deny",
        }
    }

    fn bash(&self, command: &str) -> &'static str {
        self.decide(AcceptEdits, "Bash", command)
    }
}

/// W-3: what each mode says without any rule.
#[test]
fn modes_without_rules() {
    let world = world();
    let table = [
        // tool, argument, default, acceptEdits, plan, bypassPermissions, dontAsk
        ("Read", "/etc/passwd", ["allow", "allow", "allow", "allow", "allow"]),
        ("Grep", "/etc", ["allow", "allow", "allow", "allow", "allow"]),
        ("Glob", "", ["allow", "allow", "allow", "allow", "allow"]),
        ("TodoWrite", "", ["allow", "allow", "allow", "allow", "allow"]),
        ("Edit", "src/a.rs", ["ask", "allow", "deny", "allow", "deny"]),
        ("Write", "new/dir/a.rs", ["ask", "allow", "deny", "allow", "deny"]),
        ("Write", "../extra/a", ["ask", "allow", "deny", "allow", "deny"]),
        ("Write", "../scratch/a", ["allow", "allow", "allow", "allow", "allow"]),
        ("Write", "../outside/a", ["ask", "ask", "deny", "allow", "deny"]),
        ("Write", ".git/config", ["ask", "ask", "deny", "allow", "deny"]),
        ("Bash", "ls -la", ["allow", "allow", "allow", "allow", "allow"]),
        ("Bash", "cargo test", ["ask", "ask", "deny", "allow", "deny"]),
        ("mcp__x__y", "", ["ask", "ask", "deny", "allow", "deny"]),
    ];
    for (tool, argument, expected) in table {
        let decided = MODES.map(|mode| world.decide(mode, tool, argument));
        assert_eq!(decided, expected, "{tool} {argument}");
    }
}

/// W-3: what counts is where a path leads.
#[test]
fn a_path_that_leads_out_of_the_workspace_asks() {
    let world = world();
    for (path, expected) in [
        ("src/../src/a", "allow"),
        ("in/a", "allow"),
        ("out/a", "ask"),
        ("out", "ask"),
        ("dangling", "ask"),
        ("in/../../outside/a", "ask"),
        ("out/../ws/a", "allow"),
        ("src/../../ws2/a", "ask"),
        ("~/outside/a", "ask"),
        ("~/ws/a", "allow"),
        (".git", "ask"),
        (".git/hooks/pre-commit", "ask"),
        ("g/hooks/pre-commit", "ask"),
        ("sub/.git/config", "ask"),
        (".claude/settings.json", "ask"),
        ("sub/.coordd/config.toml", "ask"),
        (".gitignore", "allow"),
        (".github/ci.yml", "allow"),
    ] {
        assert_eq!(world.decide(AcceptEdits, "Write", path), expected, "{path}");
    }
    assert_eq!(world.decide(AcceptEdits, "Write", ""), "deny");
}

#[test]
fn a_scratchpad_below_a_protected_folder_is_free() {
    let world = world();
    let workspace = Workspace {
        cwd: world.root.join("ws"),
        scratchpad: Some(world.root.join("ws/.coordd/scratch")),
        additional_dirs: vec![world.root.join("ws/.claude/worktree")],
        home: None,
        places: Places::default(),
        shell: ShellSettings::default(),
    };
    let permissions = Permissions::new(AcceptEdits, &world.rules, &workspace).unwrap();
    let decide = |path: &str| permissions.decide("Write", &json!({ "file_path": path }));
    assert_eq!(decide(".coordd/scratch/a"), Decision::Allow);
    assert_eq!(decide(".claude/worktree/a"), Decision::Allow);
    assert!(matches!(decide(".claude/worktree/.git/x"), Decision::Ask { .. }));
    assert!(matches!(decide(".coordd/a"), Decision::Ask { .. }));
}

#[test]
fn deny_wins_over_ask_and_ask_over_allow() {
    let world = world().with(
        &["Edit", "Bash(git *)", "Bash(make *)", "Read"],
        &["Edit(docs/**)", "Bash(git push *)"],
        &["Edit(docs/secret/**)", "Bash(git push --force*)", "Read(.env)"],
    );
    for (tool, argument, expected) in [
        ("Write", "../outside/a", "allow"),
        ("Write", "docs/a", "ask"),
        ("Write", "docs/secret/a", "deny"),
        ("Edit", "in/../docs/secret/a", "deny"),
        ("Read", ".env", "deny"),
        ("Read", "../outside/.env", "deny"),
        ("Grep", "sub/.env", "deny"),
        ("Bash", "git pull", "allow"),
        ("Bash", "git push origin", "ask"),
        ("Bash", "git push --force-with-lease", "deny"),
        ("Bash", "make x && git push --force", "deny"),
        ("Bash", "make x; git push", "ask"),
        ("Bash", "make x && git pull | cat", "allow"),
        ("Bash", "make x && rm y", "ask"),
    ] {
        assert_eq!(world.decide(AcceptEdits, tool, argument), expected, "{tool} {argument}");
    }
    // Bypassing permissions does not bypass what the user wrote down.
    assert_eq!(world.decide(BypassPermissions, "Write", "docs/secret/a"), "deny");
    assert_eq!(world.decide(BypassPermissions, "Write", "docs/a"), "ask");
    assert_eq!(world.decide(BypassPermissions, "Bash", "git push --force"), "deny");
    assert_eq!(world.decide(DontAsk, "Bash", "git push"), "deny");
    // In plan mode an allow rule does not make a change possible.
    assert_eq!(world.decide(Plan, "Bash", "git pull"), "deny");
    assert_eq!(world.decide(Plan, "Write", "a"), "deny");
}

#[test]
fn a_denied_path_is_denied_under_each_of_its_names() {
    let world = world().with(&[], &[], &["Edit(src/**)", "Read(//etc/shadow)"]);
    assert_eq!(world.decide(AcceptEdits, "Write", "in/a"), "deny", "by what it leads to");
    symlink("/tmp", world.root.join("ws/src/link")).unwrap();
    assert_eq!(world.decide(AcceptEdits, "Write", "src/link/a"), "deny", "by how it is written");
    assert_eq!(world.decide(AcceptEdits, "Read", "/etc/../etc/shadow"), "deny");
    for command in
        ["cat /etc/shadow", "head -n1 /etc/./shadow", "x --file=/etc/shadow", "cat < /etc/shadow"]
    {
        assert_eq!(world.bash(command), "deny", "{command}");
    }
    // Where files are protected, a plain command that reads what it does not name asks.
    assert_eq!(world.bash("cat a"), "allow");
    for command in ["cat *", "grep -r x .", "rg x"] {
        assert_eq!(world.bash(command), "ask", "{command}");
    }
    assert_eq!(world.bash("echo x > src/a"), "deny");
    let hidden = world.permissions(AcceptEdits).hidden().unwrap();
    assert!(hidden(Path::new("/etc/shadow")) && !hidden(Path::new("/etc/passwd")));
}

#[test]
fn nothing_is_hidden_without_a_rule() {
    assert!(world().permissions(AcceptEdits).hidden().is_none());
}

/// An allowed command does not carry along what it cannot vouch for.
#[test]
fn allow_rules_cover_each_part_and_nothing_hidden() {
    let world =
        world().with(&["Bash(cargo test*)", "Bash(echo *)", "Bash(npm run build)"], &[], &[]);
    for (command, expected) in [
        ("cargo test", "allow"),
        ("cargo   test --all 2>&1 | tail -n 5", "allow"),
        ("cargo test\ncargo test", "allow"),
        ("cargo test && ls", "allow"),
        ("npm run build", "allow"),
        ("npm run build:all", "ask"),
        ("cargo test; rm x", "ask"),
        ("cargo test $(rm x)", "ask"),
        ("cargo test `rm x`", "ask"),
        ("cargo test \"$(rm x)\"", "ask"),
        ("cargo test <(rm x)", "ask"),
        ("cargo test &\nrm x", "ask"),
        ("cargo test # 'x\nrm y #'", "ask"),
        ("cargo tester", "ask"),
        ("PATH=. cargo test", "ask"),
        ("\"cargo test/../../x\"", "ask"),
        ("echo x > a", "allow"),
        ("echo x > ../scratch/a", "allow"),
        ("echo x > ../outside/a", "ask"),
        ("echo x > out/a", "ask"),
        ("echo x > .git/hooks/pre-commit", "ask"),
        ("echo x > $HOME/a", "ask"),
        ("echo x > a*", "ask"),
        ("cd .. && echo x > a", "ask"),
        ("cd src && cargo test", "allow"),
        ("cd ~/extra && cargo test", "ask"),
        ("cd ../outside && cargo test", "ask"),
        ("cd out && cargo test", "ask"),
        ("cd - && cargo test", "ask"),
        ("cd && cargo test", "ask"),
        ("cd ../outside && ls", "allow"),
        ("ls > a", "allow"),
        ("", "ask"),
    ] {
        assert_eq!(world.bash(command), expected, "{command:?}");
    }
    assert_eq!(world.decide(Default, "Bash", "echo x > a"), "ask");
    assert_eq!(world.decide(Default, "Bash", "echo x"), "allow");
}

#[test]
fn a_deny_rule_finds_its_command_in_any_part() {
    let world = world().with(&["Bash"], &[], &["Bash(rm *)"]);
    for command in [
        "rm x",
        "ls | xargs rm",
        "sudo rm x",
        "/bin/rm x",
        "bash -c 'rm x'",
        "echo $(rm x)",
        "A=1 rm x",
        "ls\nrm x",
    ] {
        assert_eq!(world.bash(command), "deny", "{command:?}");
    }
    assert_eq!(world.bash("echo $(ls) > /anywhere"), "allow", "Bash without a pattern allows all");
    assert_eq!(world.bash("rmdir x"), "allow");
}

/// "Always": the subject of the question is a rule that answers it, and not much more.
#[test]
fn a_subject_allows_the_call_that_was_asked_about() {
    for (tool, argument, subject) in [
        ("Bash", "cargo test --all", "Bash(cargo test *)"),
        ("Bash", "make", "Bash(make)"),
        ("Bash", "rm -r x", "Bash(rm -r x)"),
        ("Bash", "rm x", "Bash(rm x)"),
        ("Bash", "ls | xargs rm *", "Bash(xargs rm \\*)"),
        ("Bash", "a x && b y", "Bash(a x && b y)"),
        ("Bash", "echo $(date)", "Bash(echo $(date))"),
        ("Bash", "cd x && git status", "Bash(git status *)"),
        ("Bash", "cd .. && make x", "Bash(cd .. && make x)"),
        ("Bash", "RUSTFLAGS=-g cargo test", "Bash(RUSTFLAGS=-g cargo test)"),
        ("Bash", "ls > ../outside/a", "Bash(ls > ../outside/a)"),
        ("Write", ".git/config", "Edit(/.git/config)"),
        ("Edit", ".claude/a[1].json", "Edit(/.claude/a[[]1[]].json)"),
        ("mcp__x__y", "", "mcp__x__y"),
    ] {
        let world = world();
        let mut permissions = world.permissions(AcceptEdits);
        let input = json!({ "command": argument, "file_path": argument });
        let decision = permissions.decide(tool, &input);
        let Decision::Ask { subject: Some(asked), .. } = decision else {
            panic!("{argument}: {decision:?}")
        };
        assert_eq!(asked, subject);
        permissions.allow_always(&asked).unwrap();
        assert_eq!(permissions.decide(tool, &input), Decision::Allow, "{argument}");
    }
}

#[test]
fn a_subject_of_a_path_is_its_folder() {
    let world = world();
    let Decision::Ask { reason, subject } = world.full(AcceptEdits, "Write", "out/dir/a") else {
        panic!()
    };
    let outside = world.root.join("outside/dir");
    assert_eq!(reason, format!("{}/a is outside the workspace.", outside.display()));
    assert_eq!(subject, Some(format!("Edit(/{}/**)", outside.display())));
    let Decision::Ask { subject, .. } = world.full(Default, "Edit", "src/a") else { panic!() };
    assert_eq!(subject.as_deref(), Some("Edit(/src/**)"));
    let Decision::Ask { subject, .. } = world.full(Default, "Edit", "a") else { panic!() };
    assert_eq!(subject.as_deref(), Some("Edit(/a)"));
    let long = "x".repeat(RULE_LEN_MAX);
    let Decision::Ask { subject, .. } = world.full(Default, "Bash", &long) else { panic!() };
    assert_eq!(subject, None);
}

/// A rule that allows edits in general does not open the folders that configure what runs.
#[test]
fn protected_folders_need_a_rule_that_names_them() {
    let world = world().with(&["Edit(**)", "Edit(/.claude/**)"], &[], &[]);
    assert_eq!(world.decide(Default, "Write", "src/a"), "allow");
    assert_eq!(world.decide(Default, "Write", ".git/config"), "ask");
    assert_eq!(world.decide(Default, "Write", ".claude/a"), "allow");
}

#[test]
fn rules_that_cannot_be_read_are_errors() {
    let world = world().with(&["Bash(x"], &[], &[]);
    let workspace = Workspace {
        cwd: world.root.clone(),
        scratchpad: None,
        additional_dirs: vec![],
        home: None,
        places: Places::default(),
        shell: ShellSettings::default(),
    };
    let error = Permissions::new(Default, &world.rules, &workspace).unwrap_err();
    assert!(error.to_string().contains("Tool(pattern)"));
    let many = RuleTexts { deny: vec!["Bash".to_owned(); RULES_MAX + 1], ..RuleTexts::default() };
    assert!(matches!(Permissions::new(Default, &many, &workspace), Err(RuleError::TooMany { .. })));
    let unknown: Result<RuleTexts, _> = serde_json::from_value(json!({ "alow": [] }));
    assert!(unknown.unwrap_err().to_string().contains("unknown field `alow`"));
}

/// W-1: what coordd keeps for all sessions, keys included, is read by an agent only when the user says so.
#[test]
fn coordds_state_is_not_read_without_a_question() {
    let world = world();
    let state = world.root.join(".local/state/coordd/sessions/s2");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("env.json"), "{}").unwrap();
    symlink(&state, world.root.join("ws/innocent")).unwrap();
    let inside = state.display();
    for (tool, argument) in [
        ("Read", format!("{inside}/env.json")),
        ("Read", "~/.local/state/coordd/coordd.log".to_owned()),
        ("Read", "innocent/env.json".to_owned()),
        ("Grep", inside.to_string()),
        ("Glob", "innocent".to_owned()),
        ("Write", format!("{inside}/env.json")),
        ("Read", "../run/coordd/coordd.sock".to_owned()),
        ("Read", "/proc/1/environ".to_owned()),
        ("Bash", format!("cat {inside}/env.json")),
        ("Bash", "cat ~/.local/state/coordd/sessions/*/env.json".to_owned()),
        ("Bash", "cat ~/.local/*/coordd/sessions/*/env.json".to_owned()),
        ("Bash", "cat ~/.l*/state/coordd/sessions/s2/env.json".to_owned()),
        ("Bash", "cat ../.local/state/coord?/sessions/s2/env.json".to_owned()),
        ("Bash", "cat innocent/env.json".to_owned()),
        ("Bash", "cat < innocent/env.json".to_owned()),
        ("Bash", "cd ~/.local/state && cat coordd/sessions/s2/env.json".to_owned()),
        ("Bash", "cd .. && cd .local && cat state/coordd/sessions/s2/env.json".to_owned()),
        ("Bash", "cd && cat .local/state/coordd/sessions/s2/env.json".to_owned()),
        ("Bash", "cd ~/.local/state/coor* && cat sessions/s2/env.json".to_owned()),
        ("Bash", "grep -r sk- ..".to_owned()),
        ("Bash", "grep -r sk- ~".to_owned()),
        ("Bash", "rg sk- ~/.local".to_owned()),
        ("Bash", "cd .. && rg sk-".to_owned()),
        ("Bash", format!("grep -f{inside}/env.json x")),
        ("Bash", format!("grep --file={inside}/env.json x")),
        ("Bash", format!("jq -n 'inputs|\"{inside}\"'")),
        ("Bash", "cat /proc/self/environ".to_owned()),
        ("Bash", "cat /proc/*/environ".to_owned()),
    ] {
        for (mode, expected) in [
            (AcceptEdits, "ask"),
            (Default, "ask"),
            (DontAsk, "deny"),
            (BypassPermissions, "allow"),
        ] {
            assert_eq!(world.decide(mode, tool, &argument), expected, "{mode:?} {tool} {argument}");
        }
    }
    for (tool, argument) in [
        ("Read", "~/.local/state/other"),
        ("Grep", "~"),
        ("Bash", "cat ../.local/state/other"),
        ("Bash", "grep -rn x ."),
        ("Bash", "rg x src"),
        ("Bash", "ls ../.local/state"),
        ("Bash", "cat /proc/cpuinfo"),
    ] {
        assert_eq!(world.decide(DontAsk, tool, argument), "allow", "{tool} {argument}");
    }
    let glob = json!({ "pattern": format!("{inside}/**") });
    let decision = world.permissions(AcceptEdits).decide("Glob", &glob);
    assert!(matches!(decision, Decision::Ask { .. }), "{decision:?}");
}

/// S-4: what another session's agents share is theirs.
#[test]
fn s4_another_sessions_scratchpad_is_not_read_without_a_question() {
    let world = world();
    let uid = coordd_common::processes::euid();
    let own = world.root.join(format!("tmp/claude-{uid}/-ws/s1/scratchpad"));
    let other = world.root.join(format!("tmp/claude-{uid}/-ws/s2/scratchpad"));
    for folder in [&own, &other] {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("a"), "x").unwrap();
    }
    let decide = |temp: Option<PathBuf>, tool: &str, argument: &str| {
        let workspace = Workspace {
            cwd: world.root.join("ws"),
            scratchpad: Some(own.clone()),
            additional_dirs: vec![],
            home: Some(world.root.clone()),
            places: Places { temp, ..Places::default() },
            shell: ShellSettings::default(),
        };
        let permissions = Permissions::new(AcceptEdits, &world.rules, &workspace).unwrap();
        let field = if tool == "Bash" { "command" } else { "file_path" };
        permissions.decide(tool, &json!({ field: argument, "path": argument })) == Decision::Allow
    };
    // Found from the scratchpad, and where scratchpads are by default.
    for temp in [None, Some(world.root.join("tmp"))] {
        let allowed = |tool: &str, argument: &str| decide(temp.clone(), tool, argument);
        let (own, other) = (own.display(), other.display());
        for (tool, argument) in [
            ("Read", format!("{other}/a")),
            ("Grep", other.to_string()),
            ("Write", format!("{other}/a")),
            ("Bash", format!("cat {other}/a")),
            ("Bash", format!("cat {own}/../../s2/scratchpad/a")),
            ("Bash", format!("cat {own}/../../*/scratchpad/a")),
            ("Bash", format!("cd {own}/../.. && cat s2/scratchpad/a")),
            ("Bash", "grep -r x ../tmp".to_owned()),
        ] {
            assert!(!allowed(tool, &argument), "{tool} {argument}");
        }
        for (tool, argument) in [
            ("Read", format!("{own}/a")),
            ("Grep", own.to_string()),
            ("Write", format!("{own}/a")),
            ("Bash", format!("cat {own}/a")),
            ("Bash", format!("grep -r x {own}")),
        ] {
            assert!(allowed(tool, &argument), "{tool} {argument}");
        }
    }
}

/// Whoever works in a folder among the scratchpads, works in their own folder.
#[test]
fn a_workspace_below_the_scratchpads_is_free() {
    let world = world();
    let uid = coordd_common::processes::euid();
    let cwd = world.root.join(format!("tmp/claude-{uid}/mine"));
    std::fs::create_dir_all(&cwd).unwrap();
    let workspace = Workspace {
        cwd,
        scratchpad: None,
        additional_dirs: vec![],
        home: None,
        places: world.places(),
        shell: ShellSettings::default(),
    };
    let permissions = Permissions::new(AcceptEdits, &world.rules, &workspace).unwrap();
    let bash = |it: &str| permissions.decide("Bash", &json!({ "command": it }));
    assert_eq!(bash("cat a b"), Decision::Allow);
    assert_eq!(bash("grep -r x ."), Decision::Allow);
    assert_ne!(bash("cat ../other/a"), Decision::Allow);
    assert_eq!(permissions.decide("Write", &json!({ "file_path": "a" })), Decision::Allow);
}

/// A search that begins above leaves out what is sealed; one that was allowed to begin there does not.
#[test]
fn searches_leave_out_what_is_sealed() {
    let world = world();
    let state = world.root.join(".local/state/coordd");
    let withheld = world.permissions(AcceptEdits).withheld().unwrap();
    assert!(withheld(&state) && withheld(&state.join("sessions/s2/env.json")));
    assert!(!withheld(&world.root) && !withheld(&world.root.join("ws/src")));
    assert!(world.permissions(BypassPermissions).withheld().is_none());
}

/// W-13, fP10: what is covered in the box of commands is not opened by file tools either, but where the user says so.
#[test]
fn w13_keys_and_private_data_are_not_read_without_a_question() {
    let world = world();
    let kept = [".ssh/id_ed25519", ".aws/credentials", ".claude.json", ".config/gh/hosts.yml"];
    for (tool, path) in
        kept.iter().flat_map(|path| ["Read", "Grep", "Glob", "Write"].map(|tool| (tool, path)))
    {
        let path = world.root.join(path).display().to_string();
        for mode in [Default, AcceptEdits] {
            assert_eq!(world.decide(mode, tool, &path), "ask", "{tool} {path}");
        }
        assert_eq!(world.decide(DontAsk, tool, &path), "deny", "{tool} {path}");
        assert_eq!(world.decide(BypassPermissions, tool, &path), "allow", "{tool} {path}");
        let mut boxed = world.permissions(BypassPermissions);
        boxed.use_box(&[]).unwrap();
        let input = json!({ "file_path": path, "pattern": "x", "path": path });
        assert!(matches!(boxed.decide(tool, &input), Decision::Ask { .. }), "{tool} {path}");
    }
    assert_eq!(world.decide(AcceptEdits, "Read", "/etc/shadow"), "ask");
    assert_eq!(world.decide(AcceptEdits, "Read", "/etc/passwd"), "allow");
    let key = world.root.join(".ssh/id_ed25519").display().to_string();
    assert_eq!(world.decide(AcceptEdits, "Bash", &format!("cat {key}")), "ask");
    assert_eq!(world.decide(AcceptEdits, "Bash", "cat ../.ssh/*"), "ask");
    let withheld = world.permissions(AcceptEdits).withheld().unwrap();
    assert!(withheld(&world.root.join(".ssh")) && !withheld(&world.root.join(".sshx")));
    // A rule for all of the home folder is not about keys; one that names their folder is.
    let world = world.with(&["Read(~/**)"], &[], &[]);
    assert_eq!(world.decide(AcceptEdits, "Read", &key), "ask");
    let world = world.with(&["Read(~/.ssh/**)"], &[], &[]);
    assert_eq!(world.decide(AcceptEdits, "Read", &key), "allow");
}

/// W-13: without questions nothing outside of the workspace is written, as in the box.
#[test]
fn w13_bypassing_questions_does_not_bypass_the_box() {
    let world = world();
    let mut boxed = world.permissions(BypassPermissions);
    boxed.use_box(&[]).unwrap();
    let write = |path: &str| boxed.decide("Write", &json!({ "file_path": path }));
    assert_eq!(write("src/a"), Decision::Allow);
    for path in ["../outside/a", "../.bashrc", ".git/config"] {
        assert!(matches!(write(path), Decision::Ask { .. }), "{path}");
        assert_eq!(world.decide(BypassPermissions, "Write", path), "allow", "{path}");
    }
}

/// FP-15: work for another machine sees the session's folders and the system, and nothing else.
#[test]
fn fp15_work_for_another_machine_reads_its_folder_and_the_system_alone() {
    let world = world();
    let workspace = Workspace {
        cwd: world.root.join("ws"),
        scratchpad: Some(world.root.join("scratch")),
        additional_dirs: vec![],
        home: Some(world.root.clone()),
        places: Places { folder_only: true, ..world.places() },
        shell: ShellSettings::default(),
    };
    let permissions = Permissions::new(DontAsk, &world.rules, &workspace).unwrap();
    let read = |path: &str| permissions.decide("Read", &json!({ "file_path": path }));
    for path in ["src/a", "../scratch/a", "/usr/bin/env", "/etc/passwd"] {
        assert_eq!(read(path), Decision::Allow, "{path}");
    }
    for path in
        ["../outside/a", "~/.ssh/id_ed25519", "~/notes", "/root/x", "/home/u/x", "/srv/x", "/mnt/x"]
    {
        assert!(matches!(read(path), Decision::Deny { .. }), "{path}");
    }
    // Through a link, and by a search that begins above.
    assert!(matches!(read("out/a"), Decision::Deny { .. }));
    let search = json!({ "pattern": "x", "path": ".." });
    assert!(matches!(permissions.decide("Grep", &search), Decision::Deny { .. }));
}

/// No agent gives itself permissions, or puts something where a shell, ssh or systemd will run it.
#[test]
fn what_configures_programs_is_not_written_without_a_question() {
    let world = world();
    symlink("dotfiles/bashrc", world.root.join(".bashrc")).unwrap();
    let at_home = |allow: &[&str]| {
        let allow = allow.iter().map(|it| (*it).to_owned()).collect();
        let workspace = Workspace {
            cwd: world.root.clone(),
            scratchpad: None,
            additional_dirs: vec![],
            home: Some(world.root.clone()),
            places: Places { config_home: Some(world.root.join("conf")), ..world.places() },
            shell: ShellSettings::default(),
        };
        let rules = RuleTexts { allow, ..RuleTexts::default() };
        Permissions::new(AcceptEdits, &rules, &workspace).unwrap()
    };
    let write = |permissions: &Permissions, path: &str| {
        permissions.decide("Write", &json!({ "file_path": path }))
    };
    let guarded = [
        ".config/coordd/config.toml",
        "conf/coordd/config.toml",
        ".config/systemd/user/x.service",
        ".config/fish/config.fish",
        ".ssh/authorized_keys",
        ".bashrc",
        "dotfiles/bashrc",
        ".profile",
        ".zshrc",
        ".gitconfig",
        ".local/state/coordd/coordd.db",
    ];
    // A rule that is about more does not count.
    for permissions in [at_home(&[]), at_home(&["Edit(~/**)", "Edit(/**)", "Edit", "Bash(echo *)"])]
    {
        for path in guarded {
            let decision = write(&permissions, path);
            assert!(matches!(decision, Decision::Ask { .. }), "{path}: {decision:?}");
            let command = json!({ "command": format!("echo x > {path}") });
            let decision = permissions.decide("Bash", &command);
            assert!(matches!(decision, Decision::Ask { .. }), "> {path}: {decision:?}");
        }
        for path in [".bashrc_notes", "src/.config/x", "notes", ".config/other"] {
            assert_eq!(write(&permissions, path), Decision::Allow, "{path}");
        }
    }
    // "Always" is about the one file.
    let mut permissions = at_home(&[]);
    let Decision::Ask { subject: Some(subject), .. } = write(&permissions, ".ssh/config") else {
        panic!()
    };
    assert_eq!(subject, "Edit(/.ssh/config)");
    permissions.allow_always(&subject).unwrap();
    assert_eq!(write(&permissions, ".ssh/config"), Decision::Allow);
    assert_ne!(write(&permissions, ".ssh/authorized_keys"), Decision::Allow);
    let named = at_home(&["Edit(~/.ssh/**)"]);
    assert_eq!(write(&named, ".ssh/authorized_keys"), Decision::Allow);
    // Reading them is free, as all reading.
    assert_eq!(named.decide("Read", &json!({ "file_path": ".bashrc" })), Decision::Allow);
}

/// "Always" for a program that runs another one is about this one call.
#[test]
fn an_always_for_a_wrapper_is_not_wide() {
    let world = world();
    for program in [
        "nice", "nohup", "setsid", "stdbuf", "command", "builtin", "busybox", "strace", "watch",
        "chroot", "python", "python3", "perl", "node", "ruby", "ionice", "timeout", "xargs", "env",
        "sudo", "doas", "dash", "ksh", "fish",
    ] {
        let command = format!("{program} rm foo");
        let Decision::Ask { subject, .. } = world.full(AcceptEdits, "Bash", &command) else {
            panic!("{program}")
        };
        assert_eq!(subject, Some(format!("Bash({command})")));
    }
}

#[test]
fn modes_are_spelt_as_people_know_them() {
    let names = ["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk"];
    for (mode, name) in MODES.into_iter().zip(names) {
        assert_eq!(serde_json::to_value(mode).unwrap(), json!(name));
    }
}
