//! One tool round: every call of an answer gets a result, whatever happens.
//!
//! ```text
//!   calls --> groups in order: | reads, up to 8 at once | requests to coordd, all at once | others one by one |
//!   call  --> allowed? --ask--> coordd, the user --> runs --> result
//!   stop, time up --> what runs is ended within 2 s, what has not begun is not begun
//! ```
//!
//! After a restart nobody knows whether a call had begun: reads and keyed requests are made again,
//! others are not.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{self, StreamExt as _};
use proto::entry::What;
use tokio::time::{Instant, sleep};

use super::halt::Halt;
use super::kit::Kit;
use super::native::{Run, until};
use crate::conversation::OpenCall;
use crate::framing::UNFINISHED;
use crate::model::problem_of;
use crate::orchestration::{self, Verb};
use crate::tools::{self, StopSwitch, ToolCall, ToolContext, ToolOutput};

/// Reads that run at once: enough to hide a slow disk.
const READS_AT_ONCE: usize = 8;
/// Requests to coordd that are open at once.
const REQUESTS_AT_ONCE: usize = 64;
/// How long stopped tools may take to return; the rest of W-6's two seconds is for the process
/// itself.
const STOP_MAX: Duration = Duration::from_millis(1_800);

/// What calls have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Changes nothing; several at once.
    Read,
    /// A request to coordd; several at once.
    Request,
    /// Runs alone.
    Alone,
    /// The agent has no such tool.
    Unknown,
    /// It may have begun in a process that is gone.
    Lost,
    /// Its input is no JSON object.
    Unreadable,
}

/// Gives every open call its result.
pub(super) async fn run(run: &mut Run<'_>, kit: &Kit) -> Result<(), Halt> {
    let calls = run.agent.memory.conversation().open_calls().to_vec();
    let begun =
        |call: &OpenCall| !run.calls_are_ours && !run.agent.boot.not_begun.contains(&call.id);
    let kind = |call: &OpenCall| kind_of(call, kit, begun(call));
    let groups: Vec<(Kind, Vec<OpenCall>)> = calls
        .chunk_by(|a, b| kind(a) == kind(b) && matches!(kind(a), Kind::Read | Kind::Request))
        .map(|group| (group.first().map_or(Kind::Unknown, kind), group.to_vec()))
        .collect();
    for (kind, group) in groups {
        let outputs = if let Some(why) = not_begun(run) {
            let output = ToolOutput::error(format!("Not run: {why}."));
            group.iter().map(|_| output.clone()).collect()
        } else {
            perform(run, kit, kind, &group).await
        };
        if run.agent.orders.control().keep_run {
            // Results are left out: the calls are made again when the run continues.
            return Err(Halt::Left);
        }
        let what = group.iter().zip(outputs).map(|(call, output)| What::ToolResult {
            call: call.id.clone(),
            text: output.text,
            is_error: output.is_error,
        });
        run.agent.memory.record(run.number, what.collect())?;
    }
    Ok(run.agent.memory.sync()?)
}

fn kind_of(call: &OpenCall, kit: &Kit, may_have_begun: bool) -> Kind {
    if problem_of(&call.input).is_some() {
        Kind::Unreadable
    } else if kit.verb(&call.tool).is_some() {
        Kind::Request
    } else if !kit.pool.contains(&call.tool) {
        Kind::Unknown
    } else if tools::is_read_only(&call.tool) {
        Kind::Read
    } else if may_have_begun {
        Kind::Lost
    } else {
        Kind::Alone
    }
}

/// What the model reads that wrote an input which is no JSON object.
fn unreadable(call: &OpenCall) -> ToolOutput {
    let problem = problem_of(&call.input).unwrap_or_default();
    ToolOutput::error(format!(
        "The input of this call of {} is not a valid JSON object: {problem}. It did not run. Call it again \
         with one JSON object.",
        tools::cut(&call.tool, 80)
    ))
}

fn not_begun(run: &Run<'_>) -> Option<&'static str> {
    if run.agent.orders.control().ends_run() {
        Some("the agent was stopped")
    } else if run.clock.is_up() {
        Some("the time of this run is up")
    } else {
        None
    }
}

async fn perform(run: &mut Run<'_>, kit: &Kit, kind: Kind, group: &[OpenCall]) -> Vec<ToolOutput> {
    match kind {
        Kind::Unknown => {
            group.iter().map(|it| ToolOutput::error(kit.no_such_tool(&it.tool))).collect()
        }
        Kind::Unreadable => group.iter().map(unreadable).collect(),
        Kind::Lost => group.iter().map(|_| ToolOutput::error(UNFINISHED)).collect(),
        Kind::Request => {
            say_running(run, group);
            let futures: Vec<_> = group.iter().map(|call| request(run, kit, call)).collect();
            let (switch, _stop) = StopSwitch::new();
            finish(run, futures, REQUESTS_AT_ONCE, &switch).await
        }
        Kind::Read | Kind::Alone => local(run, kit, group).await,
    }
}

/// A request to coordd. It is on its way when this returns, so that requests keep their order.
fn request<'a>(run: &Run<'_>, kit: &Kit, call: &OpenCall) -> LocalBoxFuture<'a, ToolOutput> {
    let Some(verb) = Verb::of_name(&call.tool) else {
        let output = ToolOutput::error(kit.no_such_tool(&call.tool));
        return Box::pin(async move { output });
    };
    match verb.request(&call.input, kit.audience()) {
        Ok(request) => {
            let answer = run.agent.link.call(request, Some(call.id.clone()));
            Box::pin(async move { orchestration::output(verb, answer.await) })
        }
        Err(error) => {
            let output = ToolOutput::error(error.to_string());
            Box::pin(async move { output })
        }
    }
}

/// Tools of this process: first each is allowed or not, then those that are run.
async fn local(run: &mut Run<'_>, kit: &Kit, group: &[OpenCall]) -> Vec<ToolOutput> {
    let mut verdicts = Vec::with_capacity(group.len());
    for call in group {
        if let Some(output) = kit.pool.misfit(&as_tool_call(call)) {
            verdicts.push((Some(output), None));
            continue;
        }
        let asked_at = Instant::now();
        let decided = run.agent.decided(call);
        let verdict = run.agent.permit(call, decided.as_ref(), run.clock.elapsed_ms()).await;
        // A person may take as long as a person takes.
        run.clock.pause(asked_at.elapsed());
        verdicts.push((verdict, decided));
    }
    say_running(run, group);
    let (switch, stop) = StopSwitch::new();
    let context = run.agent.tools.with_stop(stop);
    let futures: Vec<_> = group
        .iter()
        .zip(verdicts)
        .map(|(call, (refused, decided))| {
            let context = context.judged(run.agent.reach(call), decided);
            one(kit, call, refused, context)
        })
        .collect();
    finish(run, futures, READS_AT_ONCE, &switch).await
}

fn one<'a>(
    kit: &'a Kit,
    call: &OpenCall,
    refused: Option<ToolOutput>,
    context: ToolContext,
) -> LocalBoxFuture<'a, ToolOutput> {
    if let Some(output) = refused {
        return Box::pin(async move { output });
    }
    let call = as_tool_call(call);
    Box::pin(async move { kit.pool.run(&call, &context).await })
}

fn as_tool_call(call: &OpenCall) -> ToolCall {
    ToolCall { id: call.id.clone(), name: call.tool.clone(), input: call.input.clone() }
}

/// Runs all, but not beyond a stop or the end of the run's time. Each has an output afterwards.
async fn finish(
    run: &Run<'_>,
    futures: Vec<LocalBoxFuture<'_, ToolOutput>>,
    at_once: usize,
    switch: &StopSwitch,
) -> Vec<ToolOutput> {
    let mut outputs: Vec<Option<ToolOutput>> = vec![None; futures.len()];
    let numbered = futures.into_iter().enumerate();
    let mut running = stream::iter(numbered.map(|(at, it)| async move { (at, it.await) }))
        .buffer_unordered(at_once);
    let halt = async {
        tokio::select! {
            () = run.agent.orders.run_ends() => {}
            () = until(run.clock.deadline()) => {}
        }
        switch.stop();
        sleep(STOP_MAX).await;
    };
    tokio::pin!(halt);
    loop {
        tokio::select! {
            biased;
            done = running.next() => match done {
                Some((at, output)) => {
                    if let Some(place) = outputs.get_mut(at) {
                        *place = Some(output);
                    }
                }
                None => break,
            },
            () = &mut halt => break,
        }
    }
    // What did not end in time is dropped here, and its processes are killed.
    drop(running);
    let ended = || ToolOutput::error("Stopped before it finished; its effects are unknown.");
    outputs.into_iter().map(|output| output.unwrap_or_else(ended)).collect()
}

fn say_running(run: &Run<'_>, group: &[OpenCall]) {
    let first = group.first().map_or("", |group| group.tool.as_str());
    let doing = match group.len() {
        0 | 1 => format!("running {first}"),
        count => format!("running {first} and {} more", count - 1),
    };
    run.agent.activity(&doing, run.clock.elapsed_ms());
}
