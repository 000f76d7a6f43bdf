//! A client of rmcp's, and one that writes lines by hand, against the server over a pipe in memory.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use proto::agent::{Mode, Role};
use proto::hello::Credentials;
use proto::request::Request;
use proto::response::Response;
use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use serde_json::json;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex,
    split,
};
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::timeout;

use super::*;
use crate::definition;
use crate::fake_daemon::FakeDaemon;
use crate::link::{Link, LinkConfig};

const PATIENCE: Duration = Duration::from_secs(10);

/// Its tools: `echo` gives its input back, `wait` ends when told to or when the client leaves,
/// `mail` wants to know what became of its answer.
#[derive(Default)]
struct Fixture {
    release: Notify,
    begun: Notify,
    dropped: Notify,
    /// What became of answers: whether each was written.
    told: RefCell<Vec<bool>>,
    tells: Notify,
    open: Cell<usize>,
}

struct Dropped<'a>(&'a Fixture);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.dropped.notify_one();
    }
}

/// The backend that a test holds on to.
struct Shared(Rc<Fixture>);

impl Backend for Shared {
    fn instructions(&self) -> String {
        "Read this.".to_owned()
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let spec = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: format!("what {name} does"),
            input_schema: json!({ "type": "object", "properties": {} }),
        };
        vec![spec("echo"), spec("mail"), spec("wait")]
    }

    async fn call(&self, call: Call) -> Answer {
        let fixture = Rc::clone(&self.0);
        fixture.open.set(fixture.open.get() + 1);
        let _dropped = Dropped(&fixture);
        match call.tool.as_str() {
            "echo" if call.input.get("fail").is_some() => ToolOutput::error("it failed").into(),
            "echo" => ToolOutput::ok(call.input.to_string()).into(),
            "mail" => {
                let (written, told) = oneshot::channel();
                let teller = Rc::clone(&self.0);
                spawn_local(async move {
                    let was_written = told.await.is_ok();
                    teller.told.borrow_mut().push(was_written);
                    teller.tells.notify_one();
                });
                if call.input.get("late").is_some() {
                    fixture.begun.notify_one();
                    fixture.release.notified().await;
                }
                Answer { output: ToolOutput::ok("news"), written: Some(written) }
            }
            _ => {
                fixture.begun.notify_one();
                tokio::select! {
                    () = fixture.release.notified() => ToolOutput::ok("released").into(),
                    () = call.closing.cancelled() => ToolOutput::ok("closing").into(),
                }
            }
        }
    }
}

/// A client that writes its lines by hand.
struct Raw {
    lines: BufReader<ReadHalf<DuplexStream>>,
    to: WriteHalf<DuplexStream>,
    served: JoinHandle<Result<(), ServeError>>,
    fixture: Rc<Fixture>,
}

impl Raw {
    fn new() -> Self {
        let fixture = Rc::new(Fixture::default());
        let (ours, theirs) = duplex(64 * 1024);
        let (read, write) = split(theirs);
        let backend = Rc::new(Shared(Rc::clone(&fixture)));
        let served = spawn_local(serve(read, write, backend));
        let (from, to) = split(ours);
        Self { lines: BufReader::new(from), to, served, fixture }
    }

    async fn initialized() -> Self {
        let mut raw = Self::new();
        raw.initialize().await;
        raw
    }

    async fn initialize(&mut self) {
        self.say(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "raw", "version": "1" } } }))
            .await;
        let answer = self.hear().await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
        assert_eq!(answer["result"]["instructions"], "Read this.");
        assert_eq!(answer["result"]["serverInfo"]["name"], "coordd");
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    async fn write(&mut self, bytes: &[u8]) {
        timeout(PATIENCE, self.to.write_all(bytes)).await.expect("the server reads").unwrap();
    }

    async fn say(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    async fn call(&mut self, id: u64, tool: &str, input: &Value) {
        let params = json!({ "name": tool, "arguments": input });
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
            .await;
    }

    async fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id });
        self.say(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        )
        .await;
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        timeout(PATIENCE, self.lines.read_line(&mut line)).await.expect("an answer").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// The server is still there.
    async fn ping(&mut self, id: u64) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await;
        let answer = self.hear().await;
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }

    async fn close(mut self) -> Result<(), ServeError> {
        self.to.shutdown().await.unwrap();
        timeout(PATIENCE, self.served).await.expect("the server ends").unwrap()
    }
}

async fn local<F: Future>(test: F) -> F::Output {
    LocalSet::new().run_until(Box::pin(test)).await
}

fn text(result: &CallToolResult) -> &str {
    &result.content.first().unwrap().as_text().unwrap().text
}

#[tokio::test]
async fn l4_a_client_of_another_make_lists_and_calls() {
    local(async {
        let (ours, theirs) = duplex(4096);
        let (read, write) = split(theirs);
        let fixture = Rc::new(Fixture::default());
        let served = spawn_local(serve(read, write, Rc::new(Shared(fixture))));
        let client = ().serve(ours).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["echo", "mail", "wait"]);
        assert_eq!(tools[0].description.as_deref(), Some("what echo does"));
        let input = json!({ "a": [1, "b"] }).as_object().unwrap().clone();
        let call = CallToolRequestParams::new("echo").with_arguments(input);
        let result = client.call_tool(call).await.unwrap();
        assert_eq!((text(&result), result.is_error), (r#"{"a":[1,"b"]}"#, Some(false)));
        let input = json!({ "fail": 1 }).as_object().unwrap().clone();
        let failing = CallToolRequestParams::new("echo").with_arguments(input);
        let result = client.call_tool(failing).await.unwrap();
        assert_eq!((text(&result), result.is_error), ("it failed", Some(true)));
        let error = client.call_tool(CallToolRequestParams::new("Ecko")).await.unwrap_err();
        assert!(error.to_string().contains("The tools are: echo, mail, wait."), "{error}");
        client.cancel().await.unwrap();
        timeout(PATIENCE, served).await.unwrap().unwrap().unwrap();
    })
    .await;
}

/// L-4: what clients really say, as the tests of the CLIs recorded it.
#[tokio::test]
async fn l4_every_recorded_client_is_served() {
    for name in ["2.1.332", "inspector-2.12.0", "gemini-0.61.0"] {
        let file = format!("{}/../../tests/data/cli/{name}/mcp.jsonl", env!("CARGO_MANIFEST_DIR"));
        let recorded = std::fs::read_to_string(file).unwrap();
        let lines = recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines = lines.filter_map(|line| line.get("mcp").cloned());
        local(async {
            let mut raw = Raw::new();
            let mut called = 0;
            for line in lines {
                raw.say(&line).await;
                if line.get("id").is_none() {
                    continue;
                }
                let answer = raw.hear().await;
                assert_eq!(answer["id"], line["id"], "{name}: {answer}");
                let result = &answer["result"];
                match line["method"].as_str().unwrap() {
                    "initialize" => {
                        assert_eq!(result["protocolVersion"], line["params"]["protocolVersion"]);
                    }
                    "tools/list" => assert_eq!(result["tools"][0]["name"], "echo", "{name}"),
                    "tools/call" => {
                        let input = line["params"]["arguments"].to_string();
                        assert_eq!(result["content"][0]["text"], input, "{name}: {answer}");
                        called += 1;
                    }
                    // The next version of the protocol. The client continues with one that both
                    // know.
                    "server/discover" => assert!(answer["error"].is_object(), "{name}: {answer}"),
                    other => panic!("{name}: nobody has said yet what becomes of {other}"),
                }
            }
            assert_eq!(called, 1, "{name}");
            raw.close().await.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn l4_what_the_server_does_not_know_is_an_error_and_no_end() {
    local(async {
        let mut raw = Raw::new();
        // What clients try before the handshake, in the words of a version that has none.
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {} });
        let probes = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": meta } }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "server/discover" }),
            json!({ "jsonrpc": "2.0", "id": 3, "method": "no/such", "params": { "x": 1 } }),
        ];
        for probe in &probes {
            raw.say(&json!({ "jsonrpc": "2.0", "method": "notifications/too_early" })).await;
            raw.say(probe).await;
            let answer = raw.hear().await;
            assert_eq!(answer["id"], probe["id"]);
            assert!(answer["error"]["code"].is_i64(), "{answer}");
        }
        raw.initialize().await;
        raw.say(&json!({ "jsonrpc": "2.0", "id": 4, "method": "no/such" })).await;
        assert_eq!(raw.hear().await["error"]["code"], -32_601);
        raw.say(&json!({ "jsonrpc": "2.0", "id": 5, "method": "resources/list" })).await;
        assert_eq!(raw.hear().await["error"]["code"], -32_601);
        raw.ping(6).await;
        raw.close().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn l4_garbage_half_lines_and_long_lines_cost_only_themselves() {
    local(async {
        let mut raw = Raw::initialized().await;
        raw.write(b"this is no JSON\n\n\xff\xfe\n{\"jsonrpc\": \n[1, 2]\n").await;
        // A line of JSON that is no message is answered, without an id.
        let answer = raw.hear().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32_600)));
        // A line in two pieces.
        raw.write(br#"{"jsonrpc":"2.0","id":7,"me"#).await;
        tokio::task::yield_now().await;
        raw.write(b"thod\":\"ping\"}\n").await;
        assert_eq!(raw.hear().await["id"], 7);
        // Too long: it is passed over, though it would be a request.
        raw.write(br#"{"jsonrpc":"2.0","id":77,"method":"ping","params":{"x":""#).await;
        let piece = vec![b'x'; 64 * 1024];
        for _ in 0..40 {
            raw.write(&piece).await;
        }
        raw.write(b"\"}}\n").await;
        raw.ping(8).await;
        // The end in the middle of a line.
        raw.write(br#"{"jsonrpc":"2.0","id":9"#).await;
        raw.close().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn l4_a_cancelled_call_ends_and_has_no_answer() {
    local(async {
        let mut raw = Raw::initialized().await;
        raw.call(1, "wait", &json!({})).await;
        timeout(PATIENCE, raw.fixture.begun.notified()).await.unwrap();
        raw.ping(2).await;
        raw.cancel(1).await;
        timeout(PATIENCE, raw.fixture.dropped.notified()).await.expect("the call is dropped");
        raw.ping(3).await;
        raw.close().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn l4_who_waits_stops_when_the_client_closes_its_end() {
    local(async {
        let mut raw = Raw::initialized().await;
        raw.call(1, "wait", &json!({})).await;
        timeout(PATIENCE, raw.fixture.begun.notified()).await.unwrap();
        raw.to.shutdown().await.unwrap();
        assert_eq!(raw.hear().await["result"]["content"][0]["text"], "closing");
        timeout(Duration::from_secs(2), raw.served).await.expect("at once").unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn m3_an_answer_is_told_as_written_only_when_it_was() {
    local(async {
        let mut raw = Raw::initialized().await;
        raw.call(1, "mail", &json!({})).await;
        assert_eq!(raw.hear().await["result"]["content"][0]["text"], "news");
        timeout(PATIENCE, raw.fixture.tells.notified()).await.unwrap();
        assert_eq!(*raw.fixture.told.borrow(), [true]);
        raw.call(2, "mail", &json!({ "late": true })).await;
        timeout(PATIENCE, raw.fixture.begun.notified()).await.unwrap();
        raw.cancel(2).await;
        timeout(PATIENCE, raw.fixture.tells.notified()).await.unwrap();
        assert_eq!(*raw.fixture.told.borrow(), [true, false]);
        // The client is gone before the answer is ready.
        raw.call(3, "mail", &json!({ "late": true })).await;
        timeout(PATIENCE, raw.fixture.begun.notified()).await.unwrap();
        let Raw { lines, to, served, fixture } = raw;
        drop((lines, to));
        fixture.release.notify_one();
        timeout(PATIENCE, fixture.tells.notified()).await.unwrap();
        assert_eq!(*fixture.told.borrow(), [true, false, false]);
        timeout(PATIENCE, served).await.unwrap().unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn l4_calls_at_once_are_bounded_and_the_rest_is_told_so() {
    local(async {
        let mut raw = Raw::initialized().await;
        for id in 1..=65 {
            raw.call(id, "wait", &json!({})).await;
        }
        let answer = raw.hear().await;
        assert_eq!(answer["id"], 65);
        assert_eq!(answer["result"]["isError"], true);
        assert_eq!(raw.fixture.open.get(), 64);
        raw.fixture.release.notify_waiters();
        for _ in 0..64 {
            assert_eq!(raw.hear().await["result"]["content"][0]["text"], "released");
        }
        raw.call(66, "echo", &json!({})).await;
        assert_eq!(raw.hear().await["result"]["content"][0]["text"], "{}");
        raw.close().await.unwrap();
    })
    .await;
}

/// A client that asks and never reads is not read from for ever.
#[tokio::test]
async fn l4_answers_that_nobody_reads_are_bounded() {
    local(async {
        let mut raw = Raw::initialized().await;
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string() + "\n";
        let mut written = 0;
        while timeout(Duration::from_millis(500), raw.to.write_all(line.as_bytes())).await.is_ok() {
            written += 1;
            assert!(written < 20_000, "everything is read, nothing of it answered");
        }
        assert!(written > 200, "{written}");
    })
    .await;
}

/// C-1: the tools of a role, as requests of the agent whose connection it is; a repeated one has
/// the same key.
#[tokio::test]
async fn c1_a_call_is_a_request_of_the_agent() {
    local(async {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let daemon = FakeDaemon::bind(&socket);
        let credentials =
            Credentials { agent: "a1".into(), incarnation: 1, token: "t".into(), pid: 1 };
        let link = Link::new(LinkConfig {
            socket,
            credentials: Some(credentials),
            orphan_limit: None,
            state_dir: Some(folder.path().into()),
        });
        spawn_local(link.clone().keep());
        let definitions = definition::offered(Mode::Normal, false, None);
        let backend =
            Requests::new(link, Role::Coordinator, definitions, "Lead them.".into()).unwrap();
        let (ours, theirs) = duplex(64 * 1024);
        let (read, write) = split(theirs);
        spawn_local(serve(read, write, Rc::new(backend)));
        let client = ().serve(ours).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        let expected = [
            "Agent",
            "ListPeers",
            "SendMessage",
            "StructuredOutput",
            "TaskStop",
            "TeamCreate",
            "TeamDelete",
        ];
        assert_eq!(names, expected);
        let input = json!({ "task_id": "look" }).as_object().unwrap().clone();
        let call = client.call_tool(CallToolRequestParams::new("TaskStop").with_arguments(input));
        let answering = async {
            // The first connection breaks before an answer.
            let first = daemon.welcome().await.call().await;
            let mut peer = daemon.welcome().await;
            let again = peer.call().await;
            assert_eq!((&first.key, &first.request), (&again.key, &again.request));
            assert!(again.key.as_ref().is_some_and(|key| key.starts_with("mcp-")));
            assert_eq!(again.request, Request::AgentStop { agent: "look".into() });
            peer.reply(again.id, Response::Stopped { agents: vec!["look".into()], bounced: 0 })
                .await;
            peer
        };
        let (result, _peer) = timeout(PATIENCE, async { tokio::join!(call, answering) })
            .await
            .expect("an answer over a lost connection");
        assert!(text(&result.unwrap()).starts_with("Stopped: look."));
        let bad = client.call_tool(CallToolRequestParams::new("Agent")).await.unwrap();
        assert_eq!(bad.is_error, Some(true));
        assert!(text(&bad).contains("`description`"), "{}", text(&bad));
    })
    .await;
}

#[tokio::test]
async fn l4_the_pipe_copies_both_ways_until_the_server_ends() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let (stdin, mut ours_in) = duplex(1024);
    let (stdout, ours_out) = duplex(1024);
    let piping = tokio::spawn(async move { pipe::run(&socket, stdin, stdout).await });
    let (stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let (from, mut to) = stream.into_split();
    ours_in.write_all(b"question\n").await.unwrap();
    drop(ours_in);
    let mut asked = String::new();
    let mut from = BufReader::new(from);
    timeout(PATIENCE, from.read_line(&mut asked)).await.unwrap().unwrap();
    assert_eq!(asked, "question\n");
    // The client has closed its end, which the server sees, and still gets its answer.
    assert_eq!(timeout(PATIENCE, from.read_line(&mut asked)).await.unwrap().unwrap(), 0);
    to.write_all(b"answer\n").await.unwrap();
    drop((from, to));
    timeout(PATIENCE, piping).await.expect("it ends with the server").unwrap().unwrap();
    let mut answer = String::new();
    BufReader::new(ours_out).read_line(&mut answer).await.unwrap();
    assert_eq!(answer, "answer\n");
}

#[tokio::test]
async fn l4_a_pipe_to_nobody_says_what_to_do() {
    let (stdin, stdout) = (tokio::io::empty(), tokio::io::sink());
    let error = pipe::run(std::path::Path::new("/nonexistent/s"), stdin, stdout).await.unwrap_err();
    assert!(
        error.to_string().ends_with("the agent that listened there has exited; start it again")
    );
}
