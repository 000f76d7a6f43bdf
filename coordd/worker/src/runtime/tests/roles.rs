use super::*;

async fn tools_of(boot: &Bootstrap) -> Vec<String> {
    Kit::assemble(boot).await.unwrap().specs.into_iter().map(|spec| spec.name).collect()
}

#[cfg(feature = "coordinator")]
#[tokio::test]
async fn c1_fc4_a_coordinator_has_the_orchestration_tools_and_nothing_else() {
    let mut boot = World::new(Role::Coordinator, &json!([])).boot;
    let expected = [
        "Agent",
        "ListPeers",
        "SendMessage",
        "StructuredOutput",
        "TaskStop",
        "TeamCreate",
        "TeamDelete",
    ];
    assert_eq!(tools_of(&boot).await, expected);
    boot.simple_tools = true;
    assert_eq!(tools_of(&boot).await, expected);
    let kit = Kit::assemble(&boot).await.unwrap();
    // Its prompt is the file and nothing that could change.
    assert_eq!(kit.system.len(), 1);
    assert!(kit.system[0].cache && kit.system[0].text.starts_with("# Coordinator"));
    let block = kit.user_context(&boot).unwrap();
    assert!(block.contains("\nWorker tools: Bash, Edit, Read\n"), "{block}");
    assert!(block.contains("\nScratchpad directory: /"), "{block}");
    assert_eq!(Some(block), kit.user_context(&boot));
    // fC4: the tools are those of what will run.
    let claudes = Bootstrap { worker_runtime: Runtime::Claude, simple_tools: false, ..boot };
    let block = kit.user_context(&claudes).unwrap();
    assert!(block.contains("WebFetch") && !block.contains("TodoWrite"), "{block}");
}

#[tokio::test]
async fn w2_a_worker_has_no_orchestration_tool_whatever_its_definition_says() {
    let mut world = World::worker(&json!([]));
    let full = ["Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write"];
    assert_eq!(tools_of(&world.boot).await, full);
    world.boot.agent_type = "explore".to_owned();
    assert_eq!(tools_of(&world.boot).await, ["Glob", "Grep", "Read"]);
    let agents = world.path("work/.claude/agents");
    std::fs::create_dir_all(&agents).unwrap();
    let text = "---\nname: sly\ndescription: d\ntools: Agent, SendMessage, Bash\n---\nx";
    std::fs::write(agents.join("sly.md"), text).unwrap();
    world.boot.env.insert("HOME".to_owned(), world.path("work").display().to_string());
    world.boot.agent_type = "sly".to_owned();
    assert_eq!(tools_of(&world.boot).await, ["Bash"]);
    let kit = Kit::assemble(&world.boot).await.unwrap();
    assert!(kit.system[0].text.starts_with("x\n\n## Notes"), "{}", kit.system[0].text);
    assert!(kit.system[1].text.starts_with("<env>\nWorking directory: /"));
    assert_eq!([kit.system[0].cache, kit.system[1].cache], [false, true]);
    assert_eq!(kit.user_context(&world.boot), None);
}

#[tokio::test]
async fn f1_a_lead_has_all_tools_and_those_to_delegate_with() {
    let boot = World::new(Role::Lead, &json!([])).boot;
    let expected = [
        "Agent",
        "Bash",
        "Edit",
        "Glob",
        "Grep",
        "ListPeers",
        "Read",
        "SendMessage",
        "TaskStop",
        "TodoWrite",
        "Write",
    ];
    assert_eq!(tools_of(&boot).await, expected);
}

#[tokio::test]
async fn an_unknown_definition_fails_the_run_and_names_those_that_there_are() {
    let mut world = World::worker(&json!([{ "text": "x" }]));
    world.boot.agent_type = "painter".to_owned();
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(true).await;
        assert!(failed_with(&outcome, FailureClass::Fatal));
        assert!(outcome.reason.contains("`painter`; there are: explore, "), "{}", outcome.reason);
    })
    .await;
}

#[cfg(feature = "coordinator")]
#[tokio::test]
async fn c4_a_coordinator_fans_out_and_is_refused_everything_else() {
    let agent = |name: &str| {
        let input =
            json!({ "description": "d", "prompt": "p", "name": name, "subagent_type": "worker" });
        json!({ "name": "Agent", "input": input })
    };
    let world = World::new(
        Role::Coordinator,
        &json!([{ "tools": [agent("one"), bash("touch made"), agent("two"), agent("three")] }, { "text": "off they go" }]),
    );
    in_world(async {
        let (_process, mut peer) = world.connect().await;
        peer.deliver("m1", Origin::User {}, "do it").await;
        let name = |call: &proto::Call| {
            let Request::AgentSpawn { agent } = &call.request else { panic!("{call:?}") };
            assert!(!agent.wait);
            agent.name.clone()
        };
        let spawned = |name: &str| Response::Spawned {
            agent: format!("a-{name}"),
            name: name.to_owned(),
            state: "started".to_owned(),
            note: String::new(),
        };
        let first = peer.call().await;
        assert_eq!(name(&first), "one");
        peer.reply(first.id, spawned("one")).await;
        // The two that stand together are open at the same time.
        let both = [peer.call().await, peer.call().await];
        assert_eq!(both.each_ref().map(name), ["two", "three"]);
        peer.reply(both[1].id, spawned("three")).await;
        peer.reply(both[0].id, spawned("two")).await;
        peer.record_run(false).await;
        assert!(!world.path("work/made").exists());
        let lines = world.transcript();
        assert!(
            starts(&lines, "error")[0]
                .starts_with("error There is no tool \"Bash\" here. The tools are: Agent,")
        );
        let started: Vec<_> =
            starts(&lines, "result").iter().map(|start| start.lines().nth(2).unwrap()).collect();
        assert_eq!(started, ["name: one", "name: two", "name: three"]);
    })
    .await;
}

#[cfg(not(feature = "coordinator"))]
#[tokio::test]
async fn g3_without_the_feature_a_coordinator_says_what_is_missing() {
    let boot = World::new(Role::Coordinator, &json!([])).boot;
    let refused = Kit::assemble(&boot).await.unwrap_err();
    assert!(refused.reason.contains("feature `coordinator`"), "{}", refused.reason);
}
