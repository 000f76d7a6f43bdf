//! `coordctl demo`: the main job on a small real repository, with a scripted model unless another
//! is named.
//!
//! Only the model's answers are scripted. The repository, its failing test, the agents, their tools
//! and the change are real, and this program judges by itself: it runs the tests before and after.

mod project;

use std::io::IsTerminal as _;
use std::time::Instant;

use project::{Project, Tested};
use proto::agent::{Model, Role, Runtime};
use proto::entry::{Origin, What};
use proto::request::Request;
use proto::view::{AgentView, SessionView};
use serde::Serialize;

use super::new::SessionArgs;
use super::run::{self, Ending, Manner, OnInterrupt, OnQuestion};
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::live::Sink;
use crate::live::flow::Flow;
use crate::push;
use crate::terminal::{Paint, line};
use crate::{expect, format, model, output};

/// The goal, as a user would put it.
const GOAL: &str = "Make the failing test in this repository pass. `sh tests/run.sh` runs the tests. Do not commit.";
/// The rules that the job needs, so that no question is asked.
const ALLOW: [&str; 3] = ["Bash(sh tests/run.sh*)", "Bash(git status*)", "Bash(git diff*)"];

/// Show a whole job on a small real repository: agents make a failing test pass.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --model the model is a script. Agents, tools and changes are real.\n\n\
                        Exit codes: 0 the tests were red before and green after, 1 they were not, 4 no coordd.\n\n\
                        Example: coordctl demo\n\
                        \x20        coordctl demo --model anthropic:claude-opus-5-5 --keep\n\
                        \x20        coordctl demo --lead claude"
)]
pub(crate) struct Args {
    /// anthropic:NAME, openai:NAME, rehearsal:FILE, claude-… or gpt-…; the demo's own script by
    /// default.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// What drives the lead: native, or claude for Claude Code, which needs no --model.
    #[arg(long, value_name = "RUNTIME", value_parser = super::new::runtime)]
    lead: Option<Runtime>,
    /// What drives the workers: native, or claude for Claude Code; without --model the same as for
    /// the lead.
    #[arg(long, value_name = "RUNTIME", value_parser = super::new::runtime)]
    runtime: Option<Runtime>,
    /// Keep the repository and the session at the end.
    #[arg(long)]
    keep: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Summary {
    red_before: bool,
    green_after: bool,
    session: String,
    phases: Vec<String>,
    scratchpad_files: Vec<String>,
    notifications: usize,
    seconds: f64,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    let begun = Instant::now();
    let player = Player::of(args);
    let scripted = player == Player::Script;
    let screen = Screen { to_stderr: context.json };
    screen.say(context, Paint::Strong, opening(player))?;
    let project = Project::make(&context.vars)?;
    let model = scripted.then(|| model::rehearsal(Some(project.script())));
    screen.plain(&format!(
        "\nA small repository with a failing test: {}\n",
        project.repository().display()
    ))?;
    let before = project.test()?;
    show_test(context, &screen, &before)?;
    let session = open(context, args, &project, model)?;
    let job = job(context, &project, &session, !before.passed, begun);
    if args.keep {
        let (path, name) = (project.keep(), line(&session.name));
        output::note(&format!("kept: {} and session {name}", path.display()));
    } else {
        let removed = context.call(Request::SessionRemove { session: session.id, force: true });
        if let (Err(error), Ok(_)) = (removed, &job) {
            return Err(error.into());
        }
        drop(project);
    }
    output::note("coordd keeps running; `coordctl daemon stop` ends it");
    job
}

/// Who does the thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Player {
    Script,
    Model,
    ClaudeCode,
}

impl Player {
    fn of(args: &Args) -> Self {
        let claude = [args.lead, args.runtime].contains(&Some(Runtime::Claude));
        match (&args.model, claude) {
            (Some(_), _) => Self::Model,
            (None, true) => Self::ClaudeCode,
            (None, false) => Self::Script,
        }
    }

    /// What drives the lead and the workers. The script is for native agents, and without a model
    /// there are none.
    fn runtimes(self, args: &Args) -> (Option<Runtime>, Option<Runtime>) {
        match self {
            Self::Script => (Some(Runtime::Native), Some(Runtime::Native)),
            Self::Model => (args.lead, args.runtime),
            Self::ClaudeCode => {
                let other = Some(Runtime::Claude);
                (args.lead.or(other), args.runtime.or(other))
            }
        }
    }
}

fn opening(player: Player) -> &'static str {
    match player {
        Player::Script => {
            "The model here is a script (the rehearsal model); processes, tools and changes are real. For a real model: \
         coordctl demo --model anthropic:NAME with ANTHROPIC_API_KEY set, or --model openai:NAME with OPENAI_API_KEY or OPENAI_BASE_URL. With \
         your Claude Code login: coordctl demo --lead claude."
        }
        Player::Model => "A real model does this job, in its own way.",
        Player::ClaudeCode => "Claude Code does this job with your login, in its own way.",
    }
}

fn open(
    context: &mut Context,
    args: &Args,
    project: &Project,
    model: Option<Model>,
) -> anyhow::Result<SessionView> {
    let (lead, runtime) = Player::of(args).runtimes(args);
    // The demo needs coordinator mode; a build without it refuses.
    let session = SessionArgs {
        mode: Some("coordinator".to_owned()),
        model: args.model.clone(),
        runtime,
        lead,
        cwd: Some(project.repository()),
        allow: ALLOW.map(str::to_owned).into(),
        ..SessionArgs::default()
    };
    let mut new = super::new::prepare(context, &session, model)?;
    GOAL.clone_into(&mut new.prompt);
    let response = context.call(Request::SessionNew { session: Box::new(new) })?;
    expect!(response, Session { session });
    Ok(session)
}

/// Shows the job, then judges it.
fn job(
    context: &mut Context,
    project: &Project,
    session: &SessionView,
    red_before: bool,
    begun: Instant,
) -> anyhow::Result<Exit> {
    let screen = Screen { to_stderr: context.json };
    let takes_input = std::io::stdin().is_terminal() && !context.json;
    let sink = if context.json { Sink::Stderr } else { Sink::Stdout };
    screen.plain("\n")?;
    let mut live = run::start(context, session, takes_input, sink)?;
    // A worker of the demo that is denied something goes another way; nothing waits for ever.
    let on_question = if takes_input { OnQuestion::Wait } else { OnQuestion::Deny };
    let manner = Manner { on_interrupt: OnInterrupt::End, on_question };
    let (session, agents) = match run::follow(context, &mut live, manner)? {
        Ending::Quiet { session, agents } | Ending::Asked { session, agents, .. } => {
            (session, agents)
        }
        Ending::Stopped | Ending::Detached => {
            return Err(Failure::failed("the demo was interrupted; its session is stopped").into());
        }
        Ending::Gone => {
            return Err(Failure::failed("the demo's session was removed meanwhile").into());
        }
    };
    if let Some(problem) = run::problem(&session, &agents) {
        screen.say(context, Paint::Bad, &format!("\n✗ {problem}"))?;
    }
    screen.plain("\nAfterwards, run by coordctl itself:\n")?;
    let after = project.test()?;
    show_test(context, &screen, &after)?;
    screen.plain(&format!("\ngit diff\n{}", indented(&project.diff()?)))?;
    let summary = Summary {
        red_before,
        green_after: after.passed,
        session: session.id.clone(),
        phases: phases(&agents),
        scratchpad_files: scratchpad_files(context, &session)?,
        notifications: notifications(context, &session)?,
        seconds: begun.elapsed().as_secs_f64(),
    };
    verdict(context, &screen, &summary, &agents)?;
    let is_good = summary.red_before && summary.green_after;
    Ok(if is_good { Exit::Done } else { Exit::Failed })
}

fn verdict(
    context: &Context,
    screen: &Screen,
    it: &Summary,
    agents: &[AgentView],
) -> anyhow::Result<()> {
    let workers = agents.iter().filter(|agent| agent.role == Role::Worker).count();
    let facts = format!(
        "{} by {}, {}, scratchpad: {}, {:.1} s",
        it.phases.join(", "),
        format::count(workers as u64, "worker process").replace("processs", "processes"),
        format::count(it.notifications as u64, "notification"),
        it.scratchpad_files.join(" "),
        it.seconds
    );
    let (paint, text) = match (it.red_before, it.green_after) {
        (true, true) => (Paint::Good, "✓ red before, green after"),
        (true, false) => (Paint::Bad, "✗ the tests are still red"),
        (false, _) => (Paint::Bad, "✗ the tests were not red before"),
    };
    screen.say(context, paint, &format!("\n{text} ({facts})"))?;
    if context.json {
        output::json(it)?;
    }
    Ok(())
}

fn show_test(context: &Context, screen: &Screen, it: &Tested) -> anyhow::Result<()> {
    screen.plain(&format!("\nsh tests/run.sh\n{}", indented(&it.output)))?;
    let (paint, word) = if it.passed { (Paint::Good, "green") } else { (Paint::Bad, "red") };
    screen.say(context, paint, &format!("  {word}: exit {}", it.exit))
}

fn indented(text: &str) -> String {
    let mut out = String::new();
    for text in text.lines() {
        push!(out, "  {}\n", crate::terminal::clean(text));
    }
    out
}

/// The phases in which a worker completed a run, in the order of a job.
fn phases(agents: &[AgentView]) -> Vec<String> {
    let done = |phase: &&str| agents.iter().any(|agent| agent.runs > 0 && agent.phase == **phase);
    ["research", "synthesis", "implementation", "verification"]
        .into_iter()
        .filter(|phase| done(phase))
        .map(str::to_owned)
        .collect()
}

fn scratchpad_files(context: &mut Context, session: &SessionView) -> anyhow::Result<Vec<String>> {
    if session.scratchpad.is_none() {
        return Ok(Vec::new());
    }
    let response = context.call(Request::ScratchpadList { session: session.id.clone() })?;
    expect!(response, Files { files, .. });
    Ok(files.into_iter().map(|file| line(&file.path)).collect())
}

/// Notifications in the lead's own conversation.
fn notifications(context: &mut Context, session: &SessionView) -> anyhow::Result<usize> {
    let (entries, _) = super::logs::read(context, &session.lead, None)?;
    let is_one =
        |what: &What| matches!(what, What::Input { origin: Origin::Notification { .. }, .. });
    Ok(entries.iter().filter(|entry| is_one(&entry.what)).count())
}

/// Where the demo's own lines go.
struct Screen {
    to_stderr: bool,
}

impl Screen {
    fn say(&self, context: &Context, paint: Paint, text: &str) -> anyhow::Result<()> {
        if self.to_stderr {
            output::note(text);
            return Ok(());
        }
        let text = Flow::new("", 0, context.style.columns).whole(text);
        Ok(output::print(&format!("{}\n", context.style.paint(paint, &text)))?)
    }

    fn plain(&self, text: &str) -> anyhow::Result<()> {
        if self.to_stderr {
            output::note(text.trim_end_matches('\n'));
            return Ok(());
        }
        Ok(output::print(text)?)
    }
}

#[cfg(test)]
mod tests {
    use proto::view::AgentState;

    use super::*;
    use crate::live::roster::tests::agent;

    #[test]
    fn r6_the_first_line_says_that_the_model_is_a_script() {
        let text = opening(Player::Script);
        assert!(text.contains("a script") && text.contains("--model anthropic:"), "{text}");
    }

    #[test]
    fn r2_without_a_model_claude_code_is_all_that_there_is() {
        let of = |model: Option<&str>, lead, runtime| {
            let args = Args { model: model.map(str::to_owned), lead, runtime, keep: false };
            let player = Player::of(&args);
            (player, player.runtimes(&args))
        };
        let (native, claude) = (Some(Runtime::Native), Some(Runtime::Claude));
        assert_eq!(of(None, None, None), (Player::Script, (native, native)));
        assert_eq!(of(None, claude, None), (Player::ClaudeCode, (claude, claude)));
        assert_eq!(of(None, None, claude), (Player::ClaudeCode, (claude, claude)));
        assert_eq!(of(Some("m"), claude, None), (Player::Model, (claude, None)));
        assert_eq!(of(Some("m"), None, None), (Player::Model, (None, None)));
    }

    #[test]
    fn phases_come_in_the_order_of_a_job() {
        let done = |phase: &str, runs| {
            let mut it = agent(phase, phase, Role::Worker, AgentState::Stopped);
            it.phase = phase.to_owned();
            it.runs = runs;
            it
        };
        let agents = [done("verification", 1), done("research", 2), done("synthesis", 0)];
        assert_eq!(phases(&agents), ["research", "verification"]);
    }
}
