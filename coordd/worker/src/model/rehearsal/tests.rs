//! Scripts, and a conversation that is played through the real client, over real HTTP.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::model::{
    Answer, Block, Client, Delta, FailureClass, ModelChoice, ModelError, Provider, Request, Role,
    Stop, SystemPart, ToolChoice, ToolSpec, Turn, Usage,
};

fn rehearsal(script: &str) -> Rehearsal {
    let script = check(script).unwrap_or_else(|error| panic!("{error}"));
    Rehearsal { script, origin: "test.json".into(), failed: Mutex::default() }
}

fn message(reply: Reply) -> respond::Message {
    match reply {
        Reply::Message(message) => message,
        Reply::Error { .. } => panic!("{reply:?}"),
    }
}

fn refused(reply: Reply) -> String {
    match reply {
        Reply::Error { status: 400, message, retry_after_s: None } => message,
        Reply::Error { .. } | Reply::Message(_) => panic!("{reply:?}"),
    }
}

/// A request's body. `turns` are (role, content).
fn body(tools: &[&str], turns: &[(&str, Value)]) -> Vec<u8> {
    let tools: Vec<_> = tools.iter().map(|name| json!({"name": name})).collect();
    let turns: Vec<_> =
        turns.iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
    json!({
        "model": "rehearsal", "max_tokens": 10, "stream": true, "tools": tools, "messages": turns,
        "system": [{"type": "text", "text": "You lead.\n- Working directory: /repo\n"}],
    })
    .to_string()
    .into_bytes()
}

fn agent_call(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Agent", "input": {"name": name, "prompt": "p"}})
}

fn tool_result(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": text})
}

fn launched(call: &str, id: &str, name: &str) -> Value {
    tool_result(call, &format!("Launched.\nagent_id: {id}\nname: {name}\n"))
}

fn notification(id: &str, status: &str, name: &str, result: &str) -> String {
    use proto::notification::{Notification, RunStatus, Usage, render};
    let all = [RunStatus::Completed, RunStatus::Failed, RunStatus::Killed];
    render(&Notification {
        task_id: id.to_owned(),
        status: all.into_iter().find(|it| it.as_str() == status).unwrap(),
        summary: format!("Agent \"{name}\" {status}"),
        result: result.to_owned(),
        usage: Usage { output_tokens: 9, ..Usage::default() },
    })
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

const LEAD: &str = r#"{
  "about": "a lead with two workers", "pace_ms": 0,
  "agents": [
    { "when": { "has_tool": "Agent", "prompt_matches": "(?i)flaky" },
      "waiting_text": "I have {{id:a}}.",
      "after": "That is all.",
      "steps": [
        { "text": "Two look.", "tools": [
          { "name": "Agent", "input": { "name": "a" } }, { "name": "Agent", "input": { "name": "b" } } ] },
        { "text": "They are at work." },
        { "needs": ["a", "b"], "text": "a: {{result:a}} ({{status:a}}); b: {{status:b}}",
          "tools": [ { "name": "SendMessage", "input": { "to": "{{id:a}}", "message": "go on", "deep": [{"x": "{{status:b}}"}] } } ] },
        { "needs": ["a"], "text": "done: {{result:a}}" } ] },
    { "when": { "lacks_tool": "Agent" }, "steps": [ { "text": "I am a worker in {{cwd}}." } ] } ] }"#;

/// The turns of a whole run of [`LEAD`], in order.
fn lead_turns() -> Vec<(&'static str, Value)> {
    let sent = json!({"type": "tool_use", "id": "m1", "name": "SendMessage",
        "input": {"to": "a111", "message": "go on"}});
    vec![
        ("user", json!("Fix the Flaky test")),
        ("assistant", json!([text("Two look."), agent_call("c1", "a"), agent_call("c2", "b")])),
        ("user", json!([launched("c1", "a111", "a"), launched("c2", "b222", "b")])),
        ("assistant", json!([text("They are at work.")])),
        ("user", json!([text(&notification("b222", "failed", "b", ""))])),
        ("assistant", json!("Still waiting for: a. I have a111.")),
        ("user", json!([text(&notification("a111", "completed", "a", "1 < 2 && AB"))])),
        ("assistant", json!([text("a: …"), sent])),
        ("user", json!([tool_result("m1", "queued")])),
        ("assistant", json!("Still waiting for: a. I have a111.")),
        ("user", json!([text(&notification("a111", "killed", "a", "half")), text("and?")])),
        ("assistant", json!("done: half")),
        ("user", json!("thanks")),
    ]
}

/// R-6: the step follows from the request alone; waiting turns do not advance it; a failed worker
/// does not hold it up; a continued worker is waited for again.
#[test]
fn each_step_follows_from_the_conversation_alone() {
    let turns = lead_turns();
    let expected = [
        (1, "Two look.", 2, "tool_use"),
        (3, "They are at work.", 0, "end_turn"),
        (5, "Still waiting for: a. I have a111.", 0, "end_turn"),
        (7, "a: 1 < 2 && AB (completed); b: failed", 1, "tool_use"),
        (9, "Still waiting for: a. I have a111.", 0, "end_turn"),
        (11, "done: half", 0, "end_turn"),
        (13, "That is all.", 0, "end_turn"),
    ];
    // From the end to the start: what was asked before makes no difference.
    let rehearsal = rehearsal(LEAD);
    for (count, said, calls, stop) in expected.into_iter().rev() {
        let body = body(&["Agent", "SendMessage"], &turns[..count]);
        let message = message(rehearsal.reply(&body));
        assert_eq!((message.text.as_str(), message.calls.len(), message.stop), (said, calls, stop));
        assert_eq!(message.id, format!("msg_rehearsal_{}", count / 2));
        assert!(message.usage.input > 10 && message.usage.output > 0, "{:?}", message.usage);
    }
    let message = message(rehearsal.reply(&body(&["Agent"], &turns[..7])));
    assert_eq!(
        message.calls[0].input,
        json!({"to": "a111", "message": "go on", "deep": [{"x": "failed"}]})
    );
    assert_eq!(message.calls[0].id, "toolu_rehearsal_3_0");
}

#[test]
fn the_first_agent_that_fits_answers() {
    let rehearsal = rehearsal(LEAD);
    let worker = message(rehearsal.reply(&body(&["Read"], &[("user", json!("anything"))])));
    assert_eq!(worker.text, "I am a worker in /repo.");
    let nobody = refused(rehearsal.reply(&body(&["Agent"], &[("user", json!("Other work"))])));
    for part in ["test.json", "Agent", "Other work", "no agent"] {
        assert!(nobody.contains(part), "{nobody}");
    }
    assert!(refused(rehearsal.reply(b"{}")).contains("messages"));
    assert!(refused(rehearsal.reply(b"\xff")).contains("not a request"));
}

/// A step that begins to wait says so in its own words; later it names whom it still waits for.
#[test]
fn a_step_has_words_for_the_beginning_of_its_wait() {
    let script = r#"{"agents":[{"steps":[{"tools":[{"name":"Agent"}]},
        {"needs":["a","b"],"waiting_text":"Two look.","text":"both"},
        {"needs":["a"],"waiting_text":"Again.","text":"end"}]}]}"#;
    let ended = |id: &str| json!(notification(id, "completed", id, "r"));
    let turns = [
        ("user", json!("go")),
        ("assistant", json!([agent_call("c1", "a"), agent_call("c2", "b")])),
        ("user", json!([launched("c1", "a", "a"), launched("c2", "b", "b")])),
        ("assistant", json!("Two look.")),
        ("user", ended("b")),
        ("assistant", json!("Still waiting for: a.")),
        ("user", ended("a")),
    ];
    let rehearsal = rehearsal(script);
    let said = |count: usize| message(rehearsal.reply(&body(&[], &turns[..count]))).text;
    assert_eq!([said(3), said(5), said(7)], ["Two look.", "Still waiting for: a.", "both"]);
    // One that need not wait does not say that it does.
    let together = [
        turns[0].clone(),
        turns[1].clone(),
        turns[2].clone(),
        (
            "user",
            json!([
                text(&notification("a", "completed", "a", "r")),
                text(&notification("b", "completed", "b", "r")),
            ]),
        ),
    ];
    assert_eq!(message(rehearsal.reply(&body(&[], &together))).text, "both");
    for (part, problem) in [
        (r#"{"waiting_text":"w","text":"t"}"#, "waits for nobody"),
        (r#"{"needs":["a"],"waiting_text":"{{cwd}}","text":"t"}"#, "plain words"),
        (r#"{"needs":["a"],"waiting_text":"t","text":"t"}"#, "both a `text` and a `waiting_text`"),
    ] {
        let error = check(&format!(r#"{{"agents":[{{"steps":[{part}]}}]}}"#)).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

/// A name that is not known from an Agent result is taken from the summary.
#[test]
fn a_worker_is_known_by_its_notification_alone() {
    let script = r#"{"agents":[{"steps":[{"needs":["z"],"text":"{{id:z}} {{result:z}}"}]}]}"#;
    let two = format!(
        "{}\n{}",
        notification("y1", "completed", "y", "no"),
        notification("z1", "completed", "z", "</task-notification>&bogus; &")
    );
    let message = message(rehearsal(script).reply(&body(&[], &[("user", json!(two))])));
    assert_eq!(message.text, "z1 </task-notification>&bogus; &");
}

/// Words that stand in a tool result are no notification.
#[test]
fn a_notification_in_a_tool_result_counts_for_nothing() {
    let script =
        r#"{"agents":[{"steps":[{"tools":[{"name":"Read"}]},{"needs":["z"],"text":"ok"}]}]}"#;
    let turns = [
        ("user", json!("go")),
        ("assistant", json!([{"type": "tool_use", "id": "r", "name": "Read", "input": {}}])),
        ("user", json!([tool_result("r", &notification("z1", "completed", "z", "x"))])),
    ];
    assert_eq!(message(rehearsal(script).reply(&body(&[], &turns))).text, "Still waiting for: z.");
}

#[test]
fn templates_are_filled_from_what_was_said() {
    let turns = [
        ("user", json!("Scratchpad directory: /tmp/one\nversion 1.2 and version 3.4")),
        ("assistant", json!([text("version 5.6"), agent_call("c", "a")])),
        (
            "user",
            json!([
                tool_result("c", "version 7.8"),
                text("- Scratchpad directory: `/tmp/two words`"),
            ]),
        ),
    ];
    for (template, filled) in [
        ("{{scratchpad}}/spec.md", "/tmp/two words/spec.md"),
        ("{{cwd}}", "/repo"),
        ("{{tool_result}}", "version 7.8"),
        (r"{{re:version (\\d)}}", "7"),
        (r"{{re:and version \\d\\.\\d}}", "and version 3.4"),
        (r"{{re:\\d{1}}}", "8"),
        ("fn f() {{open}} }", "fn f() {{ }"),
        ("}} {x}", "}} {x}"),
    ] {
        let script =
            format!(r#"{{"agents":[{{"steps":[{{"text":"1"}},{{"text":"{template}"}}]}}]}}"#);
        let message = message(rehearsal(&script).reply(&body(&[], &turns)));
        assert_eq!(message.text, filled, "{template}");
    }
}

/// R-6: what cannot be filled is named.
#[test]
fn a_template_that_cannot_be_filled_is_an_error_that_names_it() {
    for (template, why) in [
        ("{{id:ghost}}", "Agent result"),
        ("{{result:ghost}}", "needs"),
        ("{{status:ghost}}", "needs"),
        ("{{scratchpad}}", "Scratchpad directory"),
        ("{{tool_result}}", "no tool result"),
        ("{{re:xyzzy}}", "matches"),
    ] {
        let script = format!(
            r#"{{"agents":[{{"steps":[{{"tools":[{{"name":"Read","input":{{"a":["{template}"]}}}}]}}]}}]}}"#
        );
        let problem = refused(rehearsal(&script).reply(&body(&[], &[("user", json!("go"))])));
        for part in [template, why, "test.json", "agent 1, step 1"] {
            assert!(problem.contains(part), "{problem}");
        }
    }
}

/// Bad input: a rehearsal file that does not parse.
#[test]
fn a_bad_script_says_where_and_what_to_write() {
    let step = |step: &str| format!("{{\"agents\":[\n {{\"steps\":[\n  {step}\n ]}}\n]}}");
    for (script, line, parts) in [
        (String::new(), 1, vec!["ends too early"]),
        ("{\"agents\":\n [}".to_owned(), 2, vec!["expected"]),
        ("{\n}".to_owned(), 2, vec!["missing field `agents`"]),
        ("{\"agents\":[]}".to_owned(), 1, vec!["`agents` is empty", "write at least one"]),
        ("{\"agents\":[{\n\"step\":[]}]}".to_owned(), 2, vec!["unknown field `step`", "`steps`"]),
        ("{\"pace_ms\":10001,\n\"agents\":[]}".to_owned(), 1, vec!["`pace_ms`", "at most 10000"]),
        (step("{}"), 4, vec!["says and does nothing", "write `text`"]),
        (step("{\"text\":\" \"}"), 4, vec!["says and does nothing"]),
        (step("{\"text\":\"{{cwd\"}"), 3, vec!["`{{cwd`", "not closed"]),
        (step("{\"text\":\"{{pwd}}\"}"), 3, vec!["`{{pwd}}`", "id:NAME"]),
        (step("{\"text\":\"{{re:(}}\"}"), 3, vec!["no regular expression", "unclosed group"]),
        (step("{\"text\":\"x\",\"stop\":\"soon\"}"), 3, vec!["soon", "end_turn"]),
        (step("{\"tools\":[{\"name\":\"A\",\"input\":[]}]}"), 3, vec!["`input` is not an object"]),
        (step("{\"tools\":[{\"name\":\"A\",\"input\":{\"a\":\"{{x}}\"}}]}"), 3, vec!["`{{x}}`"]),
        (step("{\"tools\":[{\"name\":\" \"}]}"), 4, vec!["no name"]),
        (step("{\"error\":{\"status\":200}}"), 3, vec!["`status` is 200", "400 to 599"]),
        (step("{\"text\":\"x\",\"error\":{\"status\":500}}"), 4, vec!["never said", "`times`"]),
        (step("{\"error\":{\"status\":500,\"times\":1}}"), 4, vec!["then it says nothing"]),
        (step("{\"text\":\"x\",\"pause_ms\":600001}"), 3, vec!["at most 600000"]),
        (
            step("{\"text\":\"x\",\"usage\":{\"tokens\":1}}"),
            3,
            vec!["unknown field `tokens`", "`input`"],
        ),
    ] {
        match check(&script) {
            Err(ScriptError::Invalid { line: at, problem, .. }) => {
                assert!(parts.iter().all(|part| problem.contains(part)), "{script}\n{problem}");
                assert_eq!(at, line, "{script}\n{problem}");
            }
            other => panic!("{script}\n{other:?}"),
        }
    }
    let huge = format!("{{\"about\":\"{}\"}}", "x".repeat(1024 * 1024));
    assert!(matches!(check(&huge), Err(ScriptError::TooLong { .. })));
}

#[test]
fn a_script_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    for (path, said) in [
        (folder.path().join("absent.json"), "check the path"),
        (file("latin.json", b"{\"about\":\"\xe4\"}"), "UTF-8"),
        (file("huge.json", &vec![b' '; 1024 * 1024 + 1]), "1 MiB"),
        (file("bad.json", b"{\n  oops"), "bad.json:2:3: "),
    ] {
        let error = client(Some(path.clone())).expect_err("a bad file");
        assert_eq!(error.class(), FailureClass::Fatal);
        let message = coordd_common::chain(&error);
        assert!(message.contains(said), "{message}");
        assert!(message.contains(&path.display().to_string()), "{message}");
    }
}

fn client(rehearsal_file: Option<PathBuf>) -> Result<Client, ModelError> {
    let model = String::new();
    let choice =
        ModelChoice { provider: Provider::Rehearsal, model, base_url: None, rehearsal_file };
    // A key and an address that are set for other programs change nothing.
    Client::new(&choice, &|name| Some(format!("http://192.0.2.1/{name}")))
}

fn scripted(script: &str) -> (Client, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, script).unwrap();
    (client(Some(file)).unwrap_or_else(|error| panic!("{}", coordd_common::chain(&error))), folder)
}

fn request(turns: &[Turn]) -> Request {
    Request {
        system: vec![SystemPart { text: "Working directory: /repo".into(), cache: true }],
        turns: turns.to_vec(),
        tools: vec![ToolSpec {
            name: "Agent".into(),
            description: "Starts".into(),
            input_schema: json!({"type": "object"}),
        }],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 1_000,
    }
}

fn user(blocks: Vec<Block>) -> Turn {
    Turn { role: Role::User, blocks }
}

fn said(text: &str) -> Block {
    Block::Text { text: text.into() }
}

async fn ask(client: &Client, turns: &[Turn]) -> (Result<Answer, ModelError>, Vec<String>) {
    let mut shown = Vec::new();
    let answer = client
        .answer(&request(turns), &mut |delta| {
            shown.push(match delta {
                Delta::Text(text) => text.to_owned(),
                Delta::ToolStarted { name } => format!("<{name}>"),
                Delta::Waiting { for_ms, why } => format!("wait {for_ms}: {why}"),
            });
        })
        .await;
    (answer, shown)
}

/// R-6: end to end, with a new client for every question, as after a kill.
#[tokio::test]
async fn a_script_is_played_over_http_by_agents_that_restart() {
    let script = r#"{"agents":[{"when":{"has_tool":"Agent"},"steps":[
        {"text":"One worker looks at it, and this text is long enough for several pieces — ünïcödé.",
         "tools":[{"name":"Agent","input":{"name":"a","prompt":"Look in {{cwd}}, \"quoted\"\n"}}]},
        {"needs":["a"],"text":"It says {{result:a}}","usage":{"input":5,"output":6,"cache_read":7,"cache_write":8}}
    ]}],"pace_ms":1}"#;
    let mut turns = vec![user(vec![said("Go")])];
    let (first, _folder) = scripted(script);
    let (answer, shown) = ask(&first, &turns).await;
    let answer = answer.expect("step 1");
    assert_eq!(answer.stop, Stop::ToolUse);
    assert!(shown.len() > 3 && shown.last().map(String::as_str) == Some("<Agent>"), "{shown:?}");
    let input = json!({"name": "a", "prompt": "Look in /repo, \"quoted\"\n"});
    let id = "toolu_rehearsal_0_0".to_owned();
    let call = Block::ToolUse { id: id.clone(), name: "Agent".into(), input };
    assert_eq!(answer.blocks[1..], [call]);
    assert!(answer.usage.input > 0 && answer.usage.output > 0);
    turns.push(Turn { role: Role::Assistant, blocks: answer.blocks });
    let launched = "agent_id: a9\nname: a".to_owned();
    turns.push(user(vec![Block::ToolResult { id, text: launched, is_error: false }]));

    let (second, _folder) = scripted(script);
    let waiting = ask(&second, &turns).await.0.expect("a waiting turn");
    assert_eq!(
        (waiting.stop, &waiting.blocks),
        (Stop::EndTurn, &vec![said("Still waiting for: a.")])
    );
    turns.push(Turn { role: Role::Assistant, blocks: waiting.blocks });
    turns.push(user(vec![said(&notification("a9", "completed", "a", "\"yes\""))]));

    let (third, _folder) = scripted(script);
    let last = ask(&third, &turns).await.0.expect("step 2");
    assert_eq!(last.blocks, [said("It says \"yes\"")]);
    assert_eq!(last.usage, Usage { input: 5, output: 6, cache_read: 7, cache_write: 8 });
}

/// R-6: it says plainly that it is scripted, and how to use a real model.
#[tokio::test]
async fn without_a_script_it_says_what_it_is() {
    let client = client(None).expect("the embedded script");
    assert!(client.describe().contains("no model"), "{}", client.describe());
    for _ in 0..2 {
        let (answer, _) = ask(&client, &[user(vec![said("Do it")])]).await;
        let Some(Block::Text { text }) = answer.expect("an answer").blocks.pop() else {
            panic!("no text")
        };
        for part in ["script", "no language model", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL"] {
            assert!(text.contains(part), "{text}");
        }
        // The second time, server and connections are made anew.
        client.release();
    }
}

/// A scripted error is a real one to the client: waited for, or final.
#[tokio::test]
async fn scripted_errors_go_the_way_of_real_ones() {
    let (busy, _folder) = scripted(
        r#"{"agents":[{"steps":[{"text":"at last","error":
            {"status":529,"message":"busy now","retry_after_s":0,"times":2}}]}]}"#,
    );
    let turns = [user(vec![said("Go")])];
    let (answer, shown) = ask(&busy, &turns).await;
    assert_eq!(answer.expect("the third time").blocks, [said("at last")]);
    assert_eq!(shown.iter().filter(|it| it.contains("busy now")).count(), 2, "{shown:?}");

    let (refused, _folder) =
        scripted(r#"{"agents":[{"steps":[{"error":{"status":401,"message":"no"}}]}]}"#);
    let error = ask(&refused, &turns).await.0.expect_err("401");
    assert!(matches!(error, ModelError::KeyRefused { status: 401, .. }), "{error:?}");

    let (unfilled, _folder) = scripted(r#"{"agents":[{"steps":[{"text":"{{scratchpad}}"}]}]}"#);
    let error = ask(&unfilled, &turns).await.0.expect_err("400");
    assert_eq!(error.class(), FailureClass::Fatal);
    assert!(error.to_string().contains("`{{scratchpad}}`"), "{error}");
}

/// A pause is kept alive, and the agent can be stopped in it.
#[tokio::test]
async fn a_question_can_be_dropped_in_a_pause() {
    let (client, _folder) =
        scripted(r#"{"agents":[{"steps":[{"text":"late","pause_ms":600000}]}]}"#);
    let turns = [user(vec![said("Go")])];
    let request = request(&turns);
    let mut ignore = |_: Delta<'_>| {};
    let asking = client.answer(&request, &mut ignore);
    let short = std::time::Duration::from_millis(50);
    assert!(tokio::time::timeout(short, asking).await.is_err());
}

/// Other users of the machine can reach the port, but not the script.
#[tokio::test]
async fn the_server_wants_its_key_and_its_path() {
    let server = Server::start(std::sync::Arc::new(rehearsal(LEAD))).unwrap();
    let http = reqwest::Client::builder().no_proxy();
    rustls::crypto::ring::default_provider().install_default().ok();
    let http = http.tls_certs_only(std::iter::empty()).build().unwrap();
    for (key, path, expected) in [
        ("", "/v1/messages", 401),
        ("guess", "/v1/messages", 401),
        (server.key().as_str(), "/other", 404),
        (server.key().as_str(), "/v1/messages", 400),
    ] {
        let url = format!("{}{path}", server.base_url());
        let response = http.post(url).header("x-api-key", key).body("{}").send().await.unwrap();
        assert_eq!(response.status().as_u16(), expected, "{key} {path}");
    }
    assert!(!format!("{server:?}").contains(&server.key()));
    assert!(server.is_running());
}

/// rel-26: a script that is none is refused, and nothing of it falls or hangs.
#[test]
fn rel26_any_script_is_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/corpus/rehearsal");
    let texts: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(texts.len() >= 5, "the corpus is there");
    let mut good = 0;
    for bytes in texts {
        for end in 0..=bytes.len() {
            let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
            good += usize::from(check(&text).is_ok());
        }
    }
    assert!(good > 0, "a whole script is among them");
}
