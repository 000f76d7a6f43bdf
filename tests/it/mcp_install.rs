//! L-4: `coordctl mcp install` on files as each client has them: shown, written whole, undone.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;
use tests::{McpClient, Sandbox};

const CLAUDE: &str = "{\n  \"numStartups\": 7,\n  \"oauthAccount\": { \"x\": 1.0 },\n  \"mcpServers\": {\n    \"other\": {\n      \"type\": \"stdio\",\n      \"command\": \"o\",\n      \"args\": [],\n      \"env\": {}\n    }\n  },\n  \"projects\": {\"/w\":{\"a\":[1,2]}}\n}\n";
const CODEX: &str = "# my settings\nmodel = \"m\"  # good\n\n[mcp_servers.other]\ncommand = \"o\"\n\n[tui]\ntheme = \"x\"\n";
const OPENCODE: &str = "{\n\t\"$schema\": \"s\",\n\t\"autoupdate\": false\n}";
const GEMINI: &str = "{\"security\":{\"auth\":{\"selectedType\":\"k\"}},\"theme\":\"d\"}";

/// Client, its file below the sandbox, what is in it before.
const FILES: [(&str, &str, &str); 4] = [
    ("claude", "h/.claude.json", CLAUDE),
    ("codex", "h/.codex/config.toml", CODEX),
    ("opencode", "c/opencode/opencode.json", OPENCODE),
    ("gemini", "h/.gemini/settings.json", GEMINI),
];

fn text(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The lines of a text that are not in another, in order.
fn new_lines<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    let before: Vec<_> = before.lines().map(|line| line.trim_end_matches(',')).collect();
    text.lines().filter(|line| !before.contains(&line.trim_end_matches(','))).collect()
}

#[test]
fn l4_an_entry_is_put_in_shown_and_taken_back() {
    for (client, file, before) in FILES {
        let sandbox = Sandbox::new();
        let path = sandbox.write(file, before);
        let dry = sandbox.coordctl(&["mcp", "install", client, "--as", "peer", "--dry-run"]);
        assert_eq!((dry.code, text(&path).as_str()), (0, before), "{dry:?}");
        let ran = sandbox.coordctl(&["mcp", "install", client, "--as", "peer"]);
        assert_eq!((ran.code, &ran.stdout), (0, &dry.stdout), "{ran:?}");
        let after = text(&path);
        // The diff has each new line, and all that was there is there.
        for line in new_lines(&after, before) {
            let head: String = line.trim_end().chars().take(100).collect();
            let found = ran.stdout.contains(&format!("\n+{head}"));
            assert!(line.trim().is_empty() || found, "{client}: {line}: {}", ran.stdout);
        }
        let kept: String = after.chars().filter(|c| !c.is_whitespace()).collect();
        for piece in before.split(['\n', ',', '{', '}']).map(str::trim) {
            let piece: String = piece.chars().filter(|c| !c.is_whitespace()).collect();
            assert!(kept.contains(&piece), "{client}: {piece}: {after}");
        }
        assert!(after.contains("coordctl") && after.contains("peer"), "{after}");
        // Again: nothing to do, and nothing is done.
        let again = sandbox.coordctl(&["mcp", "install", client, "--as", "peer"]);
        assert_eq!(again.code, 0);
        assert!(again.stdout.contains("nothing to change"), "{again:?}");
        assert_eq!(text(&path), after);
        let back = sandbox.coordctl(&["mcp", "uninstall", client]);
        assert_eq!((back.code, text(&path).as_str()), (0, before), "{client}: {back:?}");
        let nothing = sandbox.coordctl(&["mcp", "uninstall", client]);
        assert!(nothing.stdout.contains("nothing to change"), "{nothing:?}");
    }
}

#[test]
fn l4_of_a_file_that_was_changed_since_the_entry_alone_is_taken_out() {
    for (client, file, before) in FILES {
        let sandbox = Sandbox::new();
        let path = sandbox.write(file, before);
        assert_eq!(sandbox.coordctl(&["mcp", "install", client]).code, 0);
        // Its owner writes it too.
        let changed = if client == "codex" {
            format!("{}\n[new]\nx = 1\n", text(&path))
        } else {
            text(&path).replacen('{', "{ \"new\": 1,", 1)
        };
        std::fs::write(&path, changed).unwrap();
        let back = sandbox.coordctl(&["mcp", "uninstall", client]);
        assert_eq!(back.code, 0, "{back:?}");
        let after = text(&path);
        assert!(after.contains("new") && !after.contains("coordd"), "{client}: {after}");
        if client != "codex" {
            let after: Value = serde_json::from_str(&after).unwrap();
            assert_eq!(after["new"], 1);
        }
    }
}

#[test]
fn l4_a_file_that_is_not_there_is_made_and_goes_again() {
    for (client, file, _) in FILES {
        let sandbox = Sandbox::new();
        let ran = sandbox.coordctl(&["mcp", "install", client]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let path = sandbox.at(file);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(ran.stdout.starts_with("--- /dev/null\n"), "{}", ran.stdout);
        assert_eq!(sandbox.coordctl(&["mcp", "uninstall", client]).code, 0);
        assert!(!path.exists(), "{client}");
    }
}

#[test]
fn l4_a_file_that_does_not_parse_is_left_alone() {
    for (client, file, _) in FILES {
        let sandbox = Sandbox::new();
        let broken = "// mine\n{ \"a\": ";
        let path = sandbox.write(file, broken);
        for verb in ["install", "uninstall"] {
            let ran = sandbox.coordctl(&["mcp", verb, client]);
            assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
            assert!(
                ran.stderr.contains("was not changed") && ran.stderr.contains("by hand"),
                "{ran:?}"
            );
            assert_eq!(text(&path), broken);
        }
    }
}

#[test]
fn l4_a_projects_file_names_no_path_of_this_machine() {
    let sandbox = Sandbox::new();
    let ran = sandbox.coordctl(&["mcp", "install", "claude", "--scope", "project", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&said["changes"], &said["written"]), (&Value::Bool(true), &Value::Bool(true)));
    let file: Value = serde_json::from_str(&text(&sandbox.at("w/.mcp.json"))).unwrap();
    let want = serde_json::json!({ "type": "stdio", "command": "coordctl", "args": ["mcp"] });
    assert_eq!(file["mcpServers"]["coordd"], want);
    let ran = sandbox.coordctl(&["mcp", "install", "opencode", "--scope", "project"]);
    assert!(ran.stderr.contains("coordctl mcp uninstall opencode --scope project"), "{ran:?}");
    let mode = sandbox.at("w/opencode.json").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let ran = sandbox.coordctl(&["mcp", "install", "codex", "--scope", "project"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("--scope user"), "{ran:?}");
}

/// What a client starts by the entry is a server that finds coordd, though the client hands on next
/// to nothing.
#[test]
fn l4_what_is_put_in_starts_a_server() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.coordctl(&["daemon", "start"]).code, 0);
    sandbox.write("c/coordd/config.toml", "model = \"rehearsal\"\n");
    assert_eq!(sandbox.coordctl(&["mcp", "install", "claude"]).code, 0);
    let file: Value = serde_json::from_str(&text(&sandbox.at("h/.claude.json"))).unwrap();
    let entry = &file["mcpServers"]["coordd"];
    let mut command = sandbox.command(entry["command"].as_str().unwrap());
    command.args(entry["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()));
    command.env_clear();
    for name in ["HOME", "PATH"] {
        command.env(name, &sandbox.vars()[name]);
    }
    for (name, value) in entry["env"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    let mut client = McpClient::of(command);
    client.initialize();
    assert!(client.tools().contains(&"Agent".to_owned()));
    let listed = sandbox.coordctl_json(&["ls"]);
    assert_eq!(listed["sessions"]["sessions"].as_array().unwrap().len(), 1, "{listed}");
    assert!(client.close().success());
}
