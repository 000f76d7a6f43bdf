//! `coordctl new`: a session, and what all commands that make one share.

use std::ffi::OsStr;
use std::path::PathBuf;

use coordd_sandbox::Hosts;
use proto::agent::{Model, Permissions, Runtime, SandboxChoice};
use proto::request::{NewSession, Request};

use crate::config::{Config, PERMISSION_MODES};
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::paths::Vars;
use crate::terminal::line;
use crate::{env, expect, model, output, words, worker};

/// The most rules that are checked here: as many as an agent takes.
const RULES_MAX: usize = 1_000;

/// The mode of sessions in which nobody answers.
const DONT_ASK: &str = "dontAsk";

/// Create a session with its lead, in the background.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: coordctl new --name dates --mode coordinator \"make the flaky date test pass\"\n\
                        Then:    coordctl attach dates"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Let leads on another machine start workers here, in this folder. PEER is that machine's name
    /// in `coordctl bridge ls`. The session has no conversation of its own.
    #[arg(long, value_name = "PEER", conflicts_with_all = ["prompt", "lead"])]
    pub(crate) host_for: Option<String>,
    /// The first prompt for the lead; `-` reads it from stdin.
    pub(crate) prompt: Option<String>,
}

/// How a session is made.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SessionArgs {
    /// The session's name; the folder's name by default.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How the lead works: coordinator, normal or fork.
    #[arg(long, value_name = "MODE", value_parser = ["coordinator", "normal", "fork"])]
    pub(crate) mode: Option<String>,
    /// The model: anthropic:NAME, openai:NAME, rehearsal, rehearsal:FILE, claude-… or gpt-….
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// What drives the workers: native, or claude for Claude Code.
    #[arg(long, value_name = "RUNTIME", value_parser = runtime)]
    pub(crate) runtime: Option<Runtime>,
    /// What drives the lead: native, or claude for Claude Code.
    #[arg(long, value_name = "RUNTIME", value_parser = runtime)]
    pub(crate) lead: Option<Runtime>,
    /// The folder to work in; the current one by default.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// The most workers that run at once.
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u32>,
    /// The most model calls in one run of a worker.
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,
    /// The most seconds that one run of a worker may take.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) max_time: Option<u32>,
    /// A rule for calls that need no approval, such as "Bash(cargo test *)"; may be repeated.
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// A rule for calls that need approval; may be repeated.
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,
    /// A rule for calls that are refused; may be repeated.
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,
    /// The permission mode: default, acceptEdits, plan, dontAsk or bypassPermissions.
    #[arg(long, value_name = "MODE", value_parser = PERMISSION_MODES)]
    pub(crate) permission_mode: Option<String>,
    /// A host that commands reach from their sandbox, as in example.com or *.example.com, or one of cargo, npm, pypi, go, debian,
    /// github; may be repeated.
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Run commands without a sandbox; each that is not covered by a rule is asked for.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// How to treat messages from other sessions: accept, hold, refuse or auto.
    #[arg(long, value_name = "WHAT", value_parser = ["accept", "hold", "refuse", "auto"])]
    pub(crate) inbound: Option<String>,
    /// See [`Args::host_for`].
    #[arg(skip)]
    pub(crate) host_for: Option<String>,
    /// Do without a scratchpad.
    #[arg(long)]
    pub(crate) no_scratchpad: bool,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    let prompt = args.prompt.as_deref().map(text_or_stdin).transpose()?.unwrap_or_default();
    let made = SessionArgs { host_for: args.host_for.clone(), ..args.session.clone() };
    let mut session = prepare(context, &made, None)?;
    session.prompt = prompt;
    if let Some(peer) = &args.host_for {
        output::note(&handed_over(peer, &session));
    }
    let response = context.call(Request::SessionNew { session: Box::new(session) })?;
    output::respond(context, &response, || {
        expect!(&response, Session { session });
        output::say(&session.name)?;
        if let Some(peer) = &args.host_for {
            output::note(&format!(
                "leads on {} start workers here with `host`; `coordctl stop {}` ends that",
                line(peer),
                line(&session.name)
            ));
            return Ok(());
        }
        output::note(&format!(
            "{} session {} in {}; `coordctl attach {}` shows it",
            words::mode(session.mode),
            session.id,
            line(&session.cwd),
            line(&session.name)
        ));
        Ok(())
    })?;
    Ok(Exit::Done)
}

/// A new session by flags, configuration and environment, with the model that they name.
pub(crate) fn prepare(
    context: &Context,
    args: &SessionArgs,
    model: Option<Model>,
) -> Result<NewSession, Failure> {
    check_mode(args.mode.as_deref())?;
    let config = Config::load(&context.paths.config_file)?;
    let here = Context::cwd()?;
    let cwd = match &args.cwd {
        None => here.clone(),
        Some(path) => here.join(path).canonicalize().map_err(|error| {
            Failure::usage(format!("cannot work in {}: {error}", path.display()))
                .hint("give an existing folder with --cwd")
        })?,
    };
    let chosen = config.runtime.filter(|_| args.host_for.is_none());
    let runtime = args.runtime.or(chosen).unwrap_or_default();
    let lead_runtime = args.lead.or(config.lead).unwrap_or_default();
    if args.lead.is_none() && lead_runtime == Runtime::External {
        return Err(Failure::usage("the configuration says `lead = \"external\"`")
            .hint("remove it; a program leads a session through `coordctl mcp`"));
    }
    let own_lead = (args.host_for.is_none()).then_some(lead_runtime);
    let some_native = [Some(runtime), own_lead].contains(&Some(Runtime::Native));
    let model = if model.is_some() {
        model
    } else {
        let from = model::Sources { config: &config, vars: &context.vars, cwd: &here };
        model::resolve(args.model.as_deref(), from, some_native)
            .map_err(|failure| for_workers(failure, own_lead, runtime))?
    };
    let permissions = permissions(&config, args)?;
    let cwd = cwd.into_os_string().into_string().map_err(|path| {
        Failure::usage(format!("the folder {} has a name that is not UTF-8", path.display()))
            .hint("work in a folder whose path is UTF-8")
    })?;
    check_rules(&context.vars, &permissions)?;
    if [Some(runtime), own_lead].contains(&Some(Runtime::Claude))
        && let Some(note) = super::trust::note_about(context, &PathBuf::from(&cwd))
    {
        output::note(&note);
    }
    let env = env::for_agents(&context.vars, &config);
    if let Some(model) = model.as_ref().filter(|_| some_native) {
        model::check_key(model, &env)?;
    }
    Ok(NewSession {
        name: args.name.clone().unwrap_or_default(),
        cwd,
        mode: args.mode.clone(),
        mode_variable: context.vars.get("CLAUDE_CODE_COORDINATOR_MODE").cloned(),
        simple_variable: context.vars.get("CLAUDE_CODE_SIMPLE").cloned(),
        env,
        model,
        runtime,
        lead_runtime,
        permissions,
        scratchpad: !args.no_scratchpad && config.scratchpad.unwrap_or(true),
        max_turns: args.max_turns.or(config.max_turns).unwrap_or(0),
        run_s: args.max_time.or(config.run_s).unwrap_or(0),
        workers: args.workers.or(config.workers).unwrap_or(0),
        prompt: String::new(),
        cross_session_inbound: args.inbound.clone().unwrap_or_default(),
        host_for: args.host_for.clone().unwrap_or_default(),
    })
}

/// Who has Claude Code as the lead may not know that workers are native unless they say otherwise (fC3).
fn for_workers(failure: Failure, lead: Option<Runtime>, workers: Runtime) -> Failure {
    if lead != Some(Runtime::Claude) || workers != Runtime::Native {
        return failure;
    }
    let hint = format!(
        "the lead is Claude Code, and its workers are native: give --runtime claude, and they are Claude Code as well; or {}",
        failure.hint
    );
    failure.hint(hint)
}

/// What needs approval, by configuration and flags.
fn permissions(config: &Config, args: &SessionArgs) -> Result<Permissions, Failure> {
    let mut permissions = config.permissions();
    if args.host_for.is_some() {
        narrow(args, &mut permissions)?;
    }
    permissions.allow.extend(args.allow.iter().cloned());
    permissions.ask.extend(args.ask.iter().cloned());
    permissions.deny.extend(args.deny.iter().cloned());
    if let Some(mode) = &args.permission_mode {
        permissions.mode.clone_from(mode);
    }
    permissions.sandbox.off |= args.no_sandbox;
    permissions.sandbox.hosts.extend(args.host.iter().cloned());
    Hosts::parse(&permissions.sandbox.hosts).map_err(|error| {
        Failure::usage(error.to_string())
            .hint("correct --host, or `hosts` under [sandbox] in the configuration")
    })?;
    Ok(permissions)
}

/// Makes of the user's own settings what another machine's workers get: what opens something is named for their session, or is not
/// open.
fn narrow(args: &SessionArgs, permissions: &mut Permissions) -> Result<(), Failure> {
    let refused = |what: &str| {
        let rule = "workers of another machine run in the sandbox, where nobody is asked";
        Err(Failure::usage(format!("{what} cannot be given with --host-for: {rule}"))
            .hint("allow what they need with --allow RULE and --host HOST"))
    };
    if args.no_sandbox {
        return refused("--no-sandbox");
    }
    if args.permission_mode.as_deref().is_some_and(|mode| mode != DONT_ASK) {
        return refused("another --permission-mode than dontAsk");
    }
    if args.runtime.is_some_and(|runtime| runtime != Runtime::Native) {
        return refused("another --runtime than native");
    }
    DONT_ASK.clone_into(&mut permissions.mode);
    permissions.allow.clear();
    permissions.sandbox = SandboxChoice::default();
    Ok(())
}

/// What a user hands over to another machine, before it is done.
fn handed_over(peer: &str, session: &NewSession) -> String {
    let listed = |values: &[String], none: &str| {
        if values.is_empty() { none.to_owned() } else { line(&values.join(", ")) }
    };
    format!(
        "leads on {peer} will have programs of their choice run in {cwd}, with your model's key paying:\n\
         - in a sandbox that shows that folder and the system alone; nothing is asked, and what a question would be about is refused\n\
         - without that refusal: {allow}\n\
         - hosts that their commands reach: {hosts}",
        peer = line(peer),
        cwd = line(&session.cwd),
        allow = listed(&session.permissions.allow, "nothing (--allow)"),
        hosts = listed(&session.permissions.sandbox.hosts, "none (--host)"),
    )
}

/// What drives an agent, by its word.
pub(super) fn runtime(text: &str) -> Result<Runtime, String> {
    let known = [Runtime::Native, Runtime::Claude];
    known.into_iter().find(|it| it.as_str() == text).ok_or_else(|| {
        let words: Vec<_> = known.iter().map(|it| it.as_str()).collect();
        format!("the runtimes are {}", words.join(" and "))
    })
}

/// Rules that the agents could not read would make every run fail.
fn check_rules(vars: &Vars, permissions: &Permissions) -> Result<(), Failure> {
    let Permissions { allow, ask, deny, .. } = permissions;
    for rules in [allow, ask, deny] {
        // More than that is refused by coordd.
        let rules: Vec<&OsStr> = rules.iter().take(RULES_MAX).map(OsStr::new).collect();
        if rules.is_empty() {
            continue;
        }
        worker::check(vars, "--check-rules", &rules).map_err(|why| {
            Failure::usage(format!("a permission rule is not valid: {why}")).hint(
                "write Tool or Tool(pattern), as in \"Bash(cargo test *)\" or \"Edit(src/**)\", in \
                 --allow, --ask, --deny or in the configuration",
            )
        })?;
    }
    Ok(())
}

/// G-3: a build without the feature says so.
fn check_mode(mode: Option<&str>) -> Result<(), Failure> {
    if cfg!(not(feature = "coordinator")) && mode == Some("coordinator") {
        return Err(Failure::usage("this coordctl was built without the feature `coordinator`")
            .hint("build it with default features, or give --mode normal"));
    }
    // Refused before the checks that fork mode would need.
    if mode == Some("fork") {
        return Err(Failure::new(Exit::Denied, "this version has no fork mode yet")
            .hint("give --mode coordinator or --mode normal"));
    }
    Ok(())
}

/// The text, or all of stdin for `-`.
pub(crate) fn text_or_stdin(text: &str) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    // One byte more than allowed, so that what is too long is noticed.
    let limit = proto::message::BODY_LEN_MAX as u64 + 1;
    let mut bytes = Vec::new();
    let mut stdin = std::io::Read::take(std::io::stdin().lock(), limit);
    std::io::Read::read_to_end(&mut stdin, &mut bytes)
        .map_err(|error| Failure::failed(format!("cannot read stdin: {error}")))?;
    if bytes.len() as u64 == limit {
        return Err(Failure::usage("stdin holds more than 256 KiB, the longest text of a message")
            .hint("put the text into a file and name the file in the message"));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage("stdin is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-3: a rule in no form is refused before there is a session whose runs must fail.
    #[test]
    fn rules_that_cannot_be_read_are_refused_before_anything_starts() {
        let folder = tempfile::tempdir().unwrap();
        let script =
            "for it; do [ \"$it\" != 'Bash(x' ] || { echo \"the rule $it\" >&2; exit 1; }; done";
        let vars = Vars::from([worker::tests::stand_in(folder.path(), script)]);
        let rules = |rule: &str| vec!["Bash(y)".to_owned(), rule.to_owned()];
        let with = |allow: &str, ask: &str, deny: &str| {
            let (allow, ask, deny) = (rules(allow), rules(ask), rules(deny));
            check_rules(&vars, &Permissions { allow, ask, deny, ..Permissions::default() })
        };
        assert_eq!(with("Read", "Read", "Read"), Ok(()));
        for bad in [
            with("Bash(x", "Read", "Read"),
            with("Read", "Bash(x", "Read"),
            with("Read", "Read", "Bash(x"),
        ] {
            let error = bad.unwrap_err();
            assert_eq!(error.exit, Exit::Usage);
            assert!(error.message.ends_with("the rule Bash(x") && error.hint.contains("--allow"));
        }
    }

    #[test]
    fn g4_fork_is_refused_before_a_model_is_asked_for() {
        let error = check_mode(Some("fork")).unwrap_err();
        assert_eq!(error.exit, Exit::Denied);
        assert!(error.message.contains("no fork mode"), "{error}");
    }

    #[test]
    #[cfg(feature = "coordinator")]
    fn g3_coordinator_mode_may_be_asked_for() {
        assert_eq!(check_mode(Some("coordinator")), Ok(()));
    }

    #[test]
    #[cfg(not(feature = "coordinator"))]
    fn g3_a_build_without_the_feature_names_it() {
        let error = check_mode(Some("coordinator")).unwrap_err();
        assert!(error.message.contains("feature `coordinator`"));
        assert_eq!(check_mode(Some("normal")), Ok(()));
    }

    /// fC3: who is told that a model is missing is told which workers need it.
    #[test]
    fn fc3_a_lead_that_is_claude_code_does_not_make_its_workers_so() {
        let failure = || Failure::usage("no model is configured").hint("configure one");
        let told = |lead, workers| for_workers(failure(), lead, workers).hint;
        assert!(told(Some(Runtime::Claude), Runtime::Native).contains("--runtime claude"));
        for (lead, workers) in [
            (Some(Runtime::Claude), Runtime::Claude),
            (Some(Runtime::Native), Runtime::Native),
            (None, Runtime::Native),
        ] {
            assert_eq!(told(lead, workers), "configure one");
        }
    }

    /// FP-15: of the user's own settings nothing opens a session for another machine; its flags do, and are told first.
    #[test]
    fn fp15_what_another_machine_gets_is_named_for_it() {
        let own = || Permissions {
            mode: "bypassPermissions".to_owned(),
            allow: vec!["Bash".to_owned()],
            deny: vec!["Read(.env)".to_owned()],
            sandbox: SandboxChoice { off: true, ..SandboxChoice::default() },
            ..Permissions::default()
        };
        let mut permissions = own();
        narrow(&SessionArgs::default(), &mut permissions).unwrap();
        let expected =
            Permissions { mode: DONT_ASK.to_owned(), deny: own().deny, ..Permissions::default() };
        assert_eq!(permissions, expected);
        for args in [
            SessionArgs { no_sandbox: true, ..SessionArgs::default() },
            SessionArgs { permission_mode: Some("plan".to_owned()), ..SessionArgs::default() },
            SessionArgs { runtime: Some(Runtime::Claude), ..SessionArgs::default() },
        ] {
            assert!(narrow(&args, &mut own()).is_err());
        }
    }
}
