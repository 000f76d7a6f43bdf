use super::*;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

fn make(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn protected(root: &Path) -> Vec<String> {
    let standing = Standing::of(&[root.to_owned()]);
    let shown = |it: &PathBuf| it.strip_prefix(root).unwrap_or(it).display().to_string();
    let mut all: Vec<String> = standing.protected().map(shown).collect();
    all.sort();
    all
}

/// W-13: what makes git or an editor run a program stays as it is: in the repository, in its modules and worktrees, in nested ones.
#[test]
fn w13_what_configures_in_a_workspace_is_found() {
    let (_folder, root) = folder();
    let config = "[core]\n";
    make(
        &root,
        &[
            (".git/config", config),
            (".git/hooks/pre-commit", ""),
            (".git/HEAD", ""),
            (".git/worktrees/x/commondir", "../.."),
            (".git/modules/sub/HEAD", ""),
            (".git/modules/sub/config", config),
            ("a/b/.git/config", config),
            ("link/.git", "gitdir: /elsewhere\n"),
            ("bare/HEAD", ""),
            ("bare/config", config),
            ("bare/objects/x", ""),
            ("bare/refs/x", ""),
            ("node_modules/x/.git/config", config),
            (".envrc", ""),
            (".cargo/config.toml", ""),
            ("src/main.rs", ""),
        ],
    );
    let expected = [
        ".cargo/config.toml",
        ".envrc",
        ".git/config",
        ".git/hooks",
        ".git/modules/sub/config",
        ".git/worktrees/x/commondir",
        "a/b/.git/config",
        "bare/config",
        "link/.git",
    ];
    assert_eq!(protected(&root), expected);
}

/// W-13: a `.git` file opens another folder only when that folder says the same: an agent can write such a file.
#[test]
fn w13_a_git_file_opens_no_other_repository() {
    let (_folder, root) = folder();
    make(
        &root,
        &[
            ("main/.git/config", ""),
            ("main/.git/objects/x", ""),
            ("main/.git/refs/x", ""),
            ("main/.git/worktrees/w/HEAD", ""),
            ("main/.git/worktrees/w/commondir", "../.."),
            ("main/.git/worktrees/w/gitdir", &format!("{}/w/.git\n", root.display())),
            ("w/.git", &format!("gitdir: {}/main/.git/worktrees/w\n", root.display())),
            ("forged/.git", &format!("gitdir: {}/main/.git\n", root.display())),
            ("forged2/.git", &format!("gitdir: {}/main/.git/worktrees/w\n", root.display())),
        ],
    );
    let opened = |name: &str| {
        let standing = Standing::of(&[root.join(name)]);
        let all = standing.repositories().flat_map(|it| it.opened.clone());
        all.map(|it| it.strip_prefix(&root).unwrap().display().to_string()).collect::<Vec<_>>()
    };
    let expected = ["main/.git/worktrees/w", "main/.git/objects", "main/.git/refs"];
    assert_eq!(opened("w"), expected);
    assert_eq!(opened("forged"), [""; 0]);
    assert_eq!(opened("forged2"), [""; 0]);
    // In a folder of a repository, its git folder lies outside of the workspace.
    make(&root, &[("main/src/x", "")]);
    assert_eq!(opened("main/src"), ["main/.git"]);
}

/// W-13: what appears under a protected name is moved away and said; what git itself makes stays.
#[test]
fn w13_what_appears_under_a_protected_name_is_set_aside() {
    let (_folder, root) = folder();
    let (work, aside) = (root.join("w"), root.join("aside"));
    make(&work, &[(".git/config", "[core]\n\tbare = false\n"), (".git/HEAD", "")]);
    let roots = [work.clone()];
    let after = |files: &[(&str, &str)]| {
        let before = Standing::of(&roots);
        make(&work, files);
        let said = aftermath::set_aside(&before, &roots, &aside);
        let left: Vec<bool> = files.iter().map(|it| work.join(it.0).exists()).collect();
        (said.len(), left)
    };
    assert_eq!(after(&[(".git/hooks/pre-commit", "evil")]), (1, vec![false]));
    assert_eq!(after(&[(".git/commondir", "../evil")]), (1, vec![false]));
    assert_eq!(after(&[(".envrc", "evil"), (".vscode/tasks.json", "{}")]), (2, vec![false; 2]));
    let evil = "[core]\n\tfsmonitor = id\n";
    assert_eq!(after(&[("new/.git/config", evil)]), (1, vec![false]));
    assert_eq!(after(&[("file/.git", "gitdir: ../evil\n")]), (1, vec![false]));
    let loose = [("loose/HEAD", "ref: x"), ("loose/objects/x", ""), ("loose/refs/x", "")];
    assert_eq!(after(&loose), (1, vec![false, true, true]));
    let cloned = "[core]\n\tbare = false\n[remote \"o\"]\n\turl = https://x/y\n\tfetch = +a:b\n";
    // A link cannot be held; it is made again.
    std::os::unix::fs::symlink("../src/mcp", work.join(".mcp.json")).unwrap();
    let before = Standing::of(&roots);
    std::fs::remove_file(work.join(".mcp.json")).unwrap();
    std::fs::write(work.join(".mcp.json"), "evil").unwrap();
    assert_eq!(aftermath::set_aside(&before, &roots, &aside).len(), 1);
    assert_eq!(std::fs::read_link(work.join(".mcp.json")).unwrap(), Path::new("../src/mcp"));
    let plain =
        [("c/.git/config", cloned), ("c/.git/hooks/x.sample", ""), ("c/.git/info/exclude", "")];
    assert_eq!(after(&plain), (0, vec![true; 3]));
    assert_eq!(after(&[("src/main.rs", "")]), (0, vec![true]));
    assert!(aside.join("pre-commit").symlink_metadata().is_err() && aside.join("hooks.1").is_dir());
}

/// W-13: a command that leaves more than can be named hides nothing behind it.
#[test]
fn w13_all_that_appears_is_set_aside_however_much_it_is() {
    let (_folder, root) = folder();
    let work = root.join("work");
    std::fs::create_dir(&work).unwrap();
    let roots = [work.clone()];
    let before = Standing::of(&roots);
    let repositories: Vec<_> = (0..100).map(|n| format!("d{n:03}/.git")).collect();
    for git in &repositories {
        let config = format!("{git}/config");
        make(&work, &[(config.as_str(), "[core]\nfsmonitor = id\n")]);
    }
    let said = aftermath::set_aside(&before, &roots, &root.join("aside"));
    let left: Vec<_> = repositories.iter().filter(|git| work.join(git).exists()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(said.last().unwrap().contains("36 more were moved"), "{said:?}");
}

/// W-13: settings that name a program are not harmless, however they are written.
#[test]
fn w13_only_known_settings_are_harmless() {
    let (_folder, root) = folder();
    let is_harmless = |text: &str| {
        std::fs::write(root.join("config"), text).unwrap();
        git::is_harmless_config(&root.join("config"))
    };
    assert!(is_harmless("# x\n[core]\n\trepositoryformatversion = 0\n[user]\nname = A\n"));
    for bad in [
        "[core]\nfsmonitor = id\n",
        "[core] fsmonitor = id\n",
        "[CORE]\nFsMonitor=id\n",
        "[core]\nbare = false \\\nfsmonitor = id\n",
        "[core]\nhooksPath = x\n",
        "[core]\nworktree = /\n",
        "[include]\npath = x\n",
        "[includeIf \"gitdir:x\"]\npath = x\n",
        "[filter \"x\"]\nclean = id\n",
        "[alias]\nst = !id\n",
        "[remote \"o\"]\nurl = ext::sh -c id\n",
        "[remote \"o\"]\nuploadpack = id\n",
        "[credential]\nhelper = !id\n",
        "[diff]\nexternal = id\n",
    ] {
        assert!(!is_harmless(bad), "{bad}");
    }
}

/// W-13: rules become walls: a folder as a whole where the rule is about all of it, through links too.
#[test]
fn w13_what_a_rule_hides_is_found() {
    let (_folder, root) = folder();
    make(
        &root,
        &[("secrets/a", ""), ("secrets/b/c", ""), (".env", ""), ("d/.env", ""), ("d/x", "")],
    );
    std::os::unix::fs::symlink("../d/x", root.join("secrets.link")).unwrap();
    let hides = root.join("secrets");
    let filter: PathFilter =
        std::sync::Arc::new(move |path: &Path| path.starts_with(&hides) || path.ends_with(".env"));
    let found = places::found_by(&filter, std::slice::from_ref(&root)).unwrap();
    let expected = [".env", "d/.env", "secrets"].map(|it| root.join(it));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}
