use proto::agent::{Mode, RunOutcome};
use proto::error::{ErrorBody, ErrorCode};
use proto::message::SendResult;
use proto::notification::{FailureClass, RunStatus, Usage};
use proto::response::Response;
use serde_json::json;

use super::*;
use crate::definition;
use crate::link::CallError;

fn with<T>(role: Role, then: impl FnOnce(Audience<'_>) -> T) -> T {
    // The normal definitions, so that these tests hold without the feature too.
    let definitions = definition::offered(Mode::Normal, false, None);
    then(Audience { role, definitions: &definitions })
}

fn request(verb: Verb, role: Role, input: &Value) -> Result<Request, String> {
    with(role, |audience| verb.request(input, audience).map_err(|error| error.to_string()))
}

#[test]
fn c1_the_tools_of_each_role() {
    let names = |role| Verb::of_role(role).iter().map(|it| it.name()).collect::<Vec<_>>();
    let all = [
        "Agent",
        "ListPeers",
        "SendMessage",
        "StructuredOutput",
        "TaskStop",
        "TeamCreate",
        "TeamDelete",
    ];
    assert_eq!(names(Role::Coordinator), all);
    assert_eq!(names(Role::Lead), ["Agent", "ListPeers", "SendMessage", "TaskStop"]);
    assert_eq!(names(Role::Worker), [""; 0]);
    for verb in Verb::ALL {
        assert_eq!(Verb::of_name(verb.name()), Some(verb));
    }
}

#[test]
fn c7_every_schema_is_closed_and_every_description_is_there() {
    for role in [Role::Coordinator, Role::Lead] {
        for verb in Verb::of_role(role) {
            let spec = with(role, |audience| verb.spec(audience));
            let open = *verb == Verb::StructuredOutput;
            assert_eq!(spec.input_schema["additionalProperties"], json!(open), "{}", spec.name);
            assert!(spec.description.len() > 100, "{}", spec.name);
        }
    }
    let normal = with(Role::Lead, |audience| Verb::Agent.spec(audience)).description;
    let at = |name: &str| normal.find(&format!("\n- {name}: ")).unwrap();
    assert!(at("explore") < at("general-purpose") && at("general-purpose") < at("plan"));
}

#[test]
fn c7_unknown_fields_are_refused_by_name_and_those_to_come_as_such() {
    let base = json!({ "description": "d", "prompt": "p" });
    let mut input = base.clone();
    input["flavour"] = json!(1);
    let error = request(Verb::Agent, Role::Coordinator, &input).unwrap_err();
    assert!(
        error.starts_with("Agent has no field `flavour`. Its fields are: description,"),
        "{error}"
    );
    for field in ["isolation", "files", "access"] {
        let mut input = base.clone();
        input[field] = json!("x");
        let error = request(Verb::Agent, Role::Coordinator, &input).unwrap_err();
        assert_eq!(
            error,
            format!("Agent does not support `{field}` yet. Call it again without it.")
        );
        input[field] = json!(null);
        assert!(request(Verb::Agent, Role::Coordinator, &input).is_ok());
    }
    let input = json!({ "to": "a", "message": "m", "notify_when_idle": true });
    let sent = request(Verb::SendMessage, Role::Lead, &input).unwrap();
    assert!(matches!(sent, Request::Send { notify_when_idle: true, .. }), "{sent:?}");
    let error = request(Verb::Agent, Role::Lead, &json!({ "prompt": "p" })).unwrap_err();
    assert!(error.contains("`description`"), "{error}");
    let error = request(Verb::TeamDelete, Role::Coordinator, &json!({ "x": 1 })).unwrap_err();
    assert!(error.contains("`x`"), "{error}");
}

#[test]
fn f1_a_lead_waits_and_a_coordinator_does_not() {
    let input = json!({ "description": "d", "prompt": "p", "subagent_type": "explore", "name": "n",
                        "phase": "research", "model": "big", "runtime": "claude" });
    let agent = |role, input: &Value| match request(Verb::Agent, role, input) {
        Ok(Request::AgentSpawn { agent }) => *agent,
        other => panic!("{other:?}"),
    };
    let expected = NewAgent {
        description: "d".into(),
        prompt: "p".into(),
        subagent_type: "explore".into(),
        name: "n".into(),
        runtime: Some(Runtime::Claude),
        host: String::new(),
        model: "big".into(),
        phase: "research".into(),
        wait: false,
    };
    assert_eq!(agent(Role::Coordinator, &input), expected);
    assert!(agent(Role::Lead, &input).wait);
    let mut background = input.clone();
    background["run_in_background"] = json!(true);
    assert!(!agent(Role::Lead, &background).wait);
    let mut wrong = input;
    wrong["subagent_type"] = json!("painter");
    let error = request(Verb::Agent, Role::Lead, &wrong).unwrap_err();
    assert!(
        error.contains("`painter`") && error.contains("explore, general-purpose, plan"),
        "{error}"
    );
}

#[test]
fn m2_text_and_the_structured_kinds() {
    let body = |message: Value| match request(
        Verb::SendMessage,
        Role::Coordinator,
        &json!({ "to": "w", "message": message, "summary": "s" }),
    ) {
        Ok(Request::Send { session, to, body, summary, notify_when_idle: _ }) => {
            assert_eq!((session.as_str(), to.as_str(), summary.as_str()), ("", "w", "s"));
            Ok(body)
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    assert_eq!(body(json!("hi")), Ok(Body::text("hi")));
    let shutdown = Body::ShutdownRequest { reason: "r".into() };
    assert_eq!(body(json!({ "type": "shutdown_request", "reason": "r" })), Ok(shutdown));
    let answer =
        json!({ "type": "shutdown_response", "request_id": "shutdown-m1", "approve": true });
    let expected = Body::ShutdownResponse {
        request_id: "shutdown-m1".into(),
        approve: true,
        reason: String::new(),
    };
    assert_eq!(body(answer), Ok(expected));
    for wrong in [
        json!(5),
        json!({ "type": "order" }),
        json!({ "type": "shutdown_response" }),
        json!({ "type": "shutdown_request", "colour": 1 }),
    ] {
        assert!(body(wrong).unwrap_err().contains("does not fit its schema"));
    }
}

#[test]
fn c1_structured_output_takes_more_fields_and_is_bounded() {
    let input = json!({ "summary": "s", "status": "completed", "extra": { "a": 1 } });
    let got = request(Verb::StructuredOutput, Role::Coordinator, &input).unwrap();
    assert_eq!(got, Request::StructuredOutput { output: Json(input) });
    let missing = request(Verb::StructuredOutput, Role::Coordinator, &json!({ "summary": "s" }));
    assert!(missing.unwrap_err().contains("`status`"));
    let long = json!({ "summary": "s", "status": "failed", "details": "x".repeat(70_000) });
    assert!(
        request(Verb::StructuredOutput, Role::Coordinator, &long).unwrap_err().contains("at most")
    );
}

#[test]
fn c4_a_launch_is_told_as_a_launch() {
    let spawned = Response::Spawned {
        agent: "a1".into(),
        name: "look".into(),
        state: "started".into(),
        note: "model is ignored".into(),
    };
    let text = output(Verb::Agent, Ok(spawned)).text;
    let start =
        "Agent started.\nagent_id: a1\nname: look\nstate: started\nnote: model is ignored\n";
    assert!(text.starts_with(start) && text.contains("not known yet"), "{text}");
}

#[test]
fn w9_the_end_of_a_synchronous_run_is_told_whole() {
    let outcome = RunOutcome {
        status: RunStatus::Failed,
        class: Some(FailureClass::Adjust),
        reason: "out of turns".into(),
        result: "half".into(),
        usage: Usage::default(),
    };
    let ran = Response::Ran { agent: "a1".into(), name: "n".into(), outcome };
    let told = output(Verb::Agent, Ok(ran));
    assert!(told.is_error);
    assert!(told.text.contains("status: failed (adjust)\nreason: out of turns\n"), "{}", told.text);
    assert!(told.text.ends_with("\n\nhalf"));
}

#[test]
fn m5_each_receiver_has_a_line_and_one_refusal_is_no_failure() {
    let accepted = SendResult::Accepted {
        to: "a".into(),
        id: "m1".into(),
        ahead: 2,
        note: "resumes it".into(),
        request_id: Some("shutdown-m1".into()),
    };
    let refused = SendResult::Refused { to: "b".into(), reason: "mailbox full".into() };
    let both =
        output(Verb::SendMessage, Ok(Response::Sent { results: vec![accepted, refused.clone()] }));
    let expected = "a: accepted, message m1, resumes it, 2 ahead of it, request_id shutdown-m1\n\
                    b: refused, mailbox full";
    assert_eq!(both, crate::tools::ToolOutput::ok(expected));
    assert!(output(Verb::SendMessage, Ok(Response::Sent { results: vec![refused] })).is_error);
}

#[test]
fn m4_a_denial_is_an_error_that_says_what_to_do() {
    let denial = ErrorBody::new(ErrorCode::NotFound, "nobody is called bob").hint("Live: ann.");
    let told = output(Verb::SendMessage, Err(CallError::Denied(denial)));
    assert_eq!(told, crate::tools::ToolOutput::error("nobody is called bob. Live: ann."));
}
