//! The worked example of the coordinator's prompt, played in a real repository: nobody looks, and nobody is asked.

use proto::request::Request;
use proto::response::Response;
use serde_json::{Value, json};
use tests::rehearsal::{bash, call, lead, say, script, start, worker_of};
use tests::{Client, Daemon, story};

const ROWS: &str = "def read_rows(text):\n    rows = []\n    for line in text.split(\"\\n\")[:-1]:\n        rows.append(line.split(\",\"))\n    return rows\n";

const TESTS: &str = "import unittest\n\nfrom shop.rows import read_rows\n\n\nclass Rows(unittest.TestCase):\n    def test_two(self):\n        self.assertEqual(len(read_rows(\"a,1\\nb,2\\n\")), 2)\n\n\nif __name__ == \"__main__\":\n    unittest.main()\n";

const NEW_TEST: &str = "\n    def test_no_final_newline(self):\n        self.assertEqual(len(read_rows(\"a,1\\nb,2\")), 2)\n";

/// The suite, as each of the workers runs it.
const SUITE: &str = "PYTHONPATH=src python3 -m unittest discover -s tests 2>&1; echo exit=$?";

fn tool(name: &str, input: &Value) -> Value {
    json!({ "name": name, "input": input })
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    tool("Edit", &json!({ "file_path": path, "old_string": old, "new_string": new }))
}

/// Who leads: research in parallel, a recorded specification, the change by who knows the file, a fresh pair of eyes.
fn leading() -> Value {
    let needs = |who: &[&str], text: &str, tools: Value| json!({ "needs": who, "text": text, "tools": tools });
    let change = json!({ "to": "trace-reader", "summary": "Make the specified CSV change",
        "message": "You may now edit. Carry out csv-fix.md in the scratchpad." });
    let output = json!({ "summary": "The last row is kept.", "status": "completed" });
    lead(&json!([
        call(
            "Two workers look into it side by side.",
            &json!([
                start("trace-reader", "Trace the CSV reader. Read only."),
                start("survey-tests", "Survey the import tests. Read only."),
            ])
        ),
        needs(
            &["trace-reader", "survey-tests"],
            "The cause is found.",
            json!([start(
                "record-spec",
                "Record the specification in csv-fix.md in the scratchpad."
            )])
        ),
        needs(&["record-spec"], "The specification stands.", json!([tool("SendMessage", &change)])),
        needs(
            &["trace-reader"],
            "The change is made, by its author's account.",
            json!([start("verify-csv", "Verify the CSV fix. Change nothing.")])
        ),
        needs(&["verify-csv"], "It holds.", json!([tool("StructuredOutput", &output)])),
    ]))
}

fn tracing() -> Value {
    let reproduce = "PYTHONPATH=src python3 -c 'from shop.rows import read_rows; print(\"rows\", len(read_rows(\"a,1\\nb,2\")))'";
    worker_of(
        "Trace the CSV reader",
        &json!([
            call(
                "I read.",
                &json!([
                    tool("Grep", &json!({ "pattern": "read_rows", "output_mode": "content" })),
                    tool("Read", &json!({ "file_path": "src/shop/rows.py" })),
                    tool("Read", &json!({ "file_path": "tests/test_rows.py" })),
                ])
            ),
            call("I reproduce the loss.", &json!([bash(reproduce)])),
            say("[HIGH] Reproduced."),
            call(
                "The specification, and the files as they stand.",
                &json!([
                    tool("Read", &json!({ "file_path": "{{scratchpad}}/csv-fix.md" })),
                    tool("Read", &json!({ "file_path": "src/shop/rows.py" })),
                    tool("Read", &json!({ "file_path": "tests/test_rows.py" })),
                ])
            ),
            call(
                "The test first.",
                &json!([edit(
                    "tests/test_rows.py",
                    "), 2)\n\n\nif",
                    &format!("), 2)\n{NEW_TEST}\n\nif")
                )])
            ),
            call("It fails for the stated reason.", &json!([bash(SUITE)])),
            call(
                "Now the code.",
                &json!([
                    edit(
                        "src/shop/rows.py",
                        "    for line in text.split(\"\\n\")[:-1]:",
                        "    parts = text.split(\"\\n\")\n    if not parts[-1]:\n        parts.pop()\n    for line in parts:"
                    ),
                    bash(SUITE),
                    bash("git diff --stat"),
                ])
            ),
            say("Before: exit 1. After: exit 0. Not committed."),
        ]),
    )
}

fn verifying() -> Value {
    let old_code = format!(
        "mkdir -p {{{{scratchpad}}}}/old && git archive HEAD | tar -x -C {{{{scratchpad}}}}/old && \
         cp tests/test_rows.py {{{{scratchpad}}}}/old/tests/ && cd {{{{scratchpad}}}}/old && {SUITE}"
    );
    let edges = "PYTHONPATH=src python3 - <<'PY'\nfrom shop.rows import read_rows\nfor text in ['', 'a', 'a\\r\\nb', 'a\\n\\nb']:\n    print(repr(text), read_rows(text))\nPY";
    worker_of(
        "Verify the CSV fix",
        &json!([
            call("The old code with the new test.", &json!([bash(&old_code)])),
            call("The suite, and the edges.", &json!([bash(SUITE), bash(edges)])),
            call("What differs.", &json!([bash("git status --short && git log --oneline")])),
            say("Verdict: holds."),
        ]),
    )
}

/// What an agent's tools answered, each as one text.
fn results(client: &mut Client, agent: &str) -> Vec<String> {
    let entries = client.transcript(agent);
    let results = story::results(&entries);
    let failed: Vec<_> = results.iter().filter(|result| result.1).collect();
    assert!(failed.is_empty(), "{agent}: {failed:#?}");
    results.into_iter().map(|result| result.0.to_owned()).collect()
}

/// fP18, W-13, C-1: unattended in acceptEdits, in the box, it comes to its end without a question.
#[test]
fn fp18_w13_the_worked_example_runs_unattended() {
    let daemon = Daemon::start();
    for (path, text) in [
        ("src/shop/__init__.py", ""),
        ("src/shop/rows.py", ROWS),
        ("tests/test_rows.py", TESTS),
        (".gitignore", "__pycache__/\n"),
    ] {
        daemon.write(&format!("w/{path}"), text);
    }
    daemon.git_repo();

    let survey = worker_of(
        "Survey the import tests",
        &json!([
            call(
                "I look.",
                &json!([tool("Glob", &json!({ "pattern": "tests/*.py" })), bash(SUITE)])
            ),
            say("[HIGH] One case, with a final newline."),
        ]),
    );
    let specification = "Goal: a CSV text without a final newline keeps its last row.\n";
    let record = worker_of(
        "Record the specification",
        &json!([
            call(
                "As told.",
                &json!([tool(
                    "Write",
                    &json!({ "file_path": "{{scratchpad}}/csv-fix.md", "content": specification })
                )])
            ),
            call("It reads back the same.", &json!([bash("cat {{scratchpad}}/csv-fix.md")])),
            say("Wrote it and read it back."),
        ]),
    );
    let mut new = daemon.rehearsal(
        "coordinator",
        &script(&json!([leading(), tracing(), survey, record, verifying()])),
    );
    new.permissions.sandbox.off = false;
    "acceptEdits".clone_into(&mut new.permissions.mode);
    new.prompt = "The import drops the last row. Fix it, with a test. Don't commit.".into();
    let mut client = daemon.client();
    let session = client.new_session(new);
    let lead = format!("{}/lead", session.name);
    tests::wait::until_within(std::time::Duration::from_mins(2), "the result", || {
        let asked = client.ok(Request::PermissionList { session: String::new() });
        let Response::Permissions { permissions } = asked else { panic!("no list of questions") };
        assert!(permissions.is_empty(), "nobody is there to answer: {permissions:#?}");
        client.show(&session.id).0.output.is_some().then_some(())
    });
    client.agent_until(&lead, "has ended", |agent| agent.pid.is_none() || agent.runs >= 1);
    let named = |name: &str| format!("{}/{name}", session.name);

    let traced = results(&mut client, &named("trace-reader"));
    assert!(traced.iter().any(|text| text.contains("rows 1")), "the loss is real: {traced:#?}");
    let exits: Vec<_> = traced.iter().filter_map(|text| text.split("exit=").nth(1)).collect();
    assert!(
        matches!(exits[..], [red, green] if red.starts_with('1') && green.starts_with('0')),
        "{traced:#?}"
    );
    let verified = results(&mut client, &named("verify-csv"));
    assert!(
        verified[0].contains("test_no_final_newline") && verified[0].contains("exit=1"),
        "{verified:#?}"
    );
    assert!(verified[1].contains("exit=0"), "{verified:#?}");
    assert_eq!(
        verified[3].lines().filter(|line| line.starts_with(" M ")).count(),
        2,
        "{verified:#?}"
    );
    assert_eq!(results(&mut client, &named("survey-tests")).len(), 2);
    assert_eq!(results(&mut client, &named("record-spec")).len(), 2);
}
