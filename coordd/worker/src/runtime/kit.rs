//! An agent's equipment by its role: system prompt and tools (C-1, C-2, W-1, W-2).
//!
//! It is put together once for each process and does not change: the prompt cache depends on that.
//! It does not decide what a role may do; the daemon does.

use std::path::Path;

use proto::agent::{Bootstrap, Mode, Role, Runtime};
use proto::notification::FailureClass;

use crate::context::{UserContext, env_block, keep_env_block, user_context};
use crate::definition::{self, Definition};
use crate::model::{SystemPart, ToolSpec};
use crate::orchestration::{Audience, Verb};
use crate::outcome::Shortfall;
use crate::tools::ToolPool;

#[cfg(feature = "coordinator")]
const COORDINATOR: &str = include_str!("../../prompts/coordinator.md");
const LEAD: &str = include_str!("../../prompts/lead.md");
const AGENT_NOTES: &str = include_str!("../../prompts/agent-notes.md");

/// Prompt and tools of an agent.
#[derive(Debug)]
pub(crate) struct Kit {
    pub(crate) system: Vec<SystemPart>,
    /// What has changed of the surroundings since the model was told of them.
    pub(crate) change: Option<String>,
    /// Tools that this process runs.
    pub(crate) pool: ToolPool,
    /// Tools that are requests to coordd.
    pub(crate) verbs: &'static [Verb],
    /// What the model is told of both, sorted by name.
    pub(crate) specs: Vec<ToolSpec>,
    /// The kinds of agents on offer.
    pub(crate) definitions: Vec<Definition>,
    role: Role,
    /// The tools that its definition names; all when it names none.
    allowed: Option<Vec<String>>,
}

impl Kit {
    /// Assembles the agent's equipment. Fails when its definition does not exist.
    pub(crate) async fn assemble(boot: &Bootstrap) -> Result<Self, Shortfall> {
        let home = boot.env.get("HOME").map(Path::new);
        let definitions = definition::offered(boot.mode, boot.simple_tools, home);
        let full = ToolPool::new(boot.simple_tools);
        let (prompt, pool, allowed) = match boot.role {
            Role::Coordinator => (coordinator_prompt()?, full.only(&[]), None),
            Role::Lead => (LEAD.to_owned(), ToolPool::new(false), None),
            Role::Worker => worker(boot, &definitions, full)?,
            Role::Peer => {
                let reason = "a peer is a program of the user's, and no process of coordd's";
                return Err(Shortfall::failed(FailureClass::Fatal, reason));
            }
        };
        let mut change = None;
        let mut system = vec![SystemPart { text: prompt.trim_end().to_owned(), cache: false }];
        if boot.role != Role::Coordinator {
            let today =
                env_block(Path::new(&boot.cwd), boot.scratchpad.as_deref(), &boot.env).await;
            let block = keep_env_block(Path::new(&boot.state_dir), today);
            system.push(SystemPart { text: block.text, cache: false });
            change = block.change;
        }
        if let Some(last) = system.last_mut() {
            last.cache = true;
        }
        let verbs = Verb::of_role(boot.role);
        let audience = Audience { role: boot.role, definitions: &definitions };
        let mut specs: Vec<ToolSpec> = verbs.iter().map(|verb| verb.spec(audience)).collect();
        specs.extend(pool.specs().into_iter().map(|spec| ToolSpec {
            name: spec.name.to_owned(),
            description: spec.description.to_owned(),
            input_schema: spec.input_schema,
        }));
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        let role = boot.role;
        Ok(Self { system, change, pool, verbs, specs, definitions, role, allowed })
    }

    /// The block that goes before everything that was said to a coordinator (C-3).
    pub(crate) fn user_context(&self, boot: &Bootstrap) -> Option<String> {
        (self.role == Role::Coordinator).then(|| {
            let pool = ToolPool::new(boot.simple_tools);
            // The tools of what will run, which is not always what runs here (fC4).
            let worker_tools = match boot.worker_runtime {
                Runtime::Claude => super::claude::tools_of_workers(boot.simple_tools).to_vec(),
                Runtime::Native | Runtime::External | Runtime::Terminal | Runtime::Bridged => {
                    pool.specs().iter().map(|spec| spec.name).collect()
                }
            };
            user_context(UserContext {
                worker_tools,
                mcp_servers: Vec::new(),
                scratchpad: boot.scratchpad.as_deref(),
                cwd: &boot.cwd,
            })
        })
    }

    /// The prompt without what else stands in the system prompt.
    pub(crate) fn prompt(&self) -> &str {
        self.system.first().map_or("", |system| system.text.as_str())
    }

    /// Whether its definition lets the agent have this tool.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        self.allowed.as_ref().is_none_or(|it| it.iter().any(|it| it == tool))
    }

    pub(crate) fn audience(&self) -> Audience<'_> {
        Audience { role: self.role, definitions: &self.definitions }
    }

    /// The tool of coordd's that this name means to this agent.
    pub(crate) fn verb(&self, name: &str) -> Option<Verb> {
        Verb::of_name(name).filter(|it| self.verbs.contains(it))
    }

    /// What to answer a call of a tool that this agent does not have.
    pub(crate) fn no_such_tool(&self, name: &str) -> String {
        let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
        let name = crate::tools::cut(name, 80);
        format!("There is no tool {name:?} here. The tools are: {}.", names.join(", "))
    }
}

#[cfg(feature = "coordinator")]
#[expect(clippy::unnecessary_wraps, reason = "without the feature it fails")]
fn coordinator_prompt() -> Result<String, Shortfall> {
    Ok(COORDINATOR.to_owned())
}

#[cfg(not(feature = "coordinator"))]
fn coordinator_prompt() -> Result<String, Shortfall> {
    let reason = "this build has no coordinator mode: build coordd with the feature `coordinator`, or use another mode";
    Err(Shortfall::failed(FailureClass::Fatal, reason))
}

fn worker(
    boot: &Bootstrap,
    definitions: &[Definition],
    full: ToolPool,
) -> Result<(String, ToolPool, Option<Vec<String>>), Shortfall> {
    let Some(definition) = definition::find(definitions, &boot.agent_type, boot.mode) else {
        let names: Vec<&str> =
            definitions.iter().map(|definition| definition.name.as_str()).collect();
        let reason = format!(
            "there is no agent definition `{}`; there are: {}",
            boot.agent_type,
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        );
        return Err(Shortfall::failed(FailureClass::Fatal, reason));
    };
    let pool = match &definition.tools {
        Some(names) => full.only(names),
        None => full,
    };
    // The worker of coordinator mode says all of it in its own words.
    let prompt = if boot.mode == Mode::Coordinator {
        definition.prompt.clone().into_owned()
    } else {
        format!("{}\n\n{AGENT_NOTES}", definition.prompt.trim_end())
    };
    Ok((prompt, pool, definition.tools.clone()))
}
