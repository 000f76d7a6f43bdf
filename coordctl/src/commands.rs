//! One file a verb: its arguments, and what it asks of coordd.

pub(crate) mod attach;
pub(crate) mod bridge;
pub(crate) mod completions;
pub(crate) mod daemon;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod ended;
pub(crate) mod events;
pub(crate) mod help;
pub(crate) mod inbound;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod mcp;
pub(crate) mod new;
pub(crate) mod peers;
pub(crate) mod permit;
pub(crate) mod resume;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod scratchpad;
pub(crate) mod send;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod task;
pub(crate) mod team;
pub(crate) mod trust;
pub(crate) mod usage;
pub(crate) mod wait;

use crate::args::{Cli, Verb};
use crate::context::Context;
use crate::error::Exit;

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> anyhow::Result<Exit> {
    // These two speak of the command line alone and need no environment.
    if let Verb::Completions(args) = &cli.verb {
        return completions::run(args, cli.json);
    }
    if let Verb::Help(args) = &cli.verb {
        return help::run(args, cli.json);
    }
    let mut context = Context::new(cli.json)?;
    let context = &mut context;
    match cli.verb {
        Verb::Demo(args) => demo::run(context, &args),
        Verb::Run(args) => run::run(context, &args),
        Verb::New(args) => new::run(context, &args),
        Verb::Attach(args) => attach::run(context, &args),
        Verb::Ls(_) => ls::run(context),
        Verb::Status(args) => status::run(context, &args),
        Verb::Send(args) => send::run(context, &args),
        Verb::Wait(args) => wait::run(context, &args),
        Verb::Stop(args) => stop::run(context, args),
        Verb::Resume(args) => resume::run(context, args),
        Verb::Rm(args) => rm::run(context, args),
        Verb::Logs(args) => logs::run(context, &args),
        Verb::Events(args) => events::run(context, args),
        Verb::Permit(args) => permit::run(context, args),
        Verb::Trust(args) => trust::run(context, &args),
        Verb::Peers(_) => peers::run(context),
        Verb::Inbound(args) => inbound::run(context, args),
        Verb::Bridge(args) => bridge::run(context, args),
        Verb::Usage(args) => usage::run(context, args),
        Verb::Team(args) => team::run(context, args),
        Verb::Task(args) => task::run(context, args),
        Verb::Scratchpad(args) => scratchpad::run(context, args),
        Verb::Mcp(args) => mcp::run(context, &args),
        Verb::Daemon(args) => daemon::run(context, &args),
        Verb::Doctor(_) => doctor::run(context),
        Verb::Completions(args) => completions::run(&args, context.json),
        Verb::Help(args) => help::run(&args, context.json),
    }
}
