//! The client: one request, retries within limits, one answer.
//!
//! The HTTP client and the rehearsal server are made at the first question and can be let go
//! between questions, so that an idle agent holds neither.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::sleep;

use super::assembly::{AnswerTooLong, Assembly, Ending};
use super::endpoint::{Endpoint, Environment};
use super::error::{ModelError, Setback};
use super::http::{Fault, PATIENCE, Patience, Said, broken, judge};
use super::rehearsal::{Rehearsal, Server};
use super::retry::{POLICY, Policy, Tally};
use super::{
    Answer, Delta, ModelChoice, OnDelta, Provider, Request, Stop, anthropic, http, openai,
};

/// Asks one model.
#[derive(Debug)]
pub(crate) struct Client {
    source: Source,
    model: String,
    pub(super) policy: Policy,
    pub(super) patience: Patience,
    live: Mutex<Live>,
}

#[derive(Debug)]
enum Source {
    Anthropic(Arc<Endpoint>),
    OpenAi(Arc<Endpoint>),
    Rehearsal(Arc<Rehearsal>),
}

/// What is made when it is needed.
#[derive(Debug, Default)]
struct Live {
    http: Option<reqwest::Client>,
    rehearsal: Option<(Server, Arc<Endpoint>)>,
}

#[derive(Debug, Clone, Copy)]
enum Dialect {
    Anthropic,
    OpenAi,
}

impl Client {
    /// Checks all that can be checked without the network. Needs no runtime.
    pub(crate) fn new(
        choice: &ModelChoice,
        environment: Environment<'_>,
    ) -> Result<Self, ModelError> {
        let base_url = choice.base_url.as_deref();
        let source = match choice.provider {
            Provider::Anthropic => {
                Source::Anthropic(Arc::new(Endpoint::anthropic(base_url, environment)?))
            }
            Provider::OpenAi => Source::OpenAi(Arc::new(Endpoint::openai(base_url, environment)?)),
            Provider::Rehearsal => {
                let rehearsal = Rehearsal::load(choice.rehearsal_file.as_deref())
                    .map_err(|source| ModelError::Script { source })?;
                Source::Rehearsal(Arc::new(rehearsal))
            }
        };
        let mut model = choice.model.trim().to_owned();
        if model.is_empty() {
            match source {
                Source::Anthropic(_) | Source::OpenAi(_) => return Err(ModelError::ModelMissing),
                Source::Rehearsal(_) => "rehearsal".clone_into(&mut model),
            }
        }
        let live = Mutex::default();
        Ok(Self { source, model, policy: POLICY, patience: PATIENCE, live })
    }

    /// The model and where it is, for a status line. A scripted model says so.
    pub(crate) fn describe(&self) -> String {
        match &self.source {
            Source::Anthropic(endpoint) | Source::OpenAi(endpoint) => {
                format!("{} at {}", self.model, endpoint.shown)
            }
            Source::Rehearsal(rehearsal) => {
                format!("rehearsal (a script, no model): {}", rehearsal.origin())
            }
        }
    }

    /// Lets go of connections and of the rehearsal server until the next question.
    pub(crate) fn release(&self) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Live::default();
    }

    /// Asks and waits for the whole answer; what can be shown meanwhile goes to `on_delta`.
    /// Dropping the future ends the request.
    pub(crate) async fn answer(
        &self,
        request: &Request,
        on_delta: OnDelta<'_>,
    ) -> Result<Answer, ModelError> {
        let ready = self.ready()?;
        let body: Bytes = match ready.dialect {
            Dialect::Anthropic => anthropic::encode(request, &self.model, ready.endpoint.official),
            Dialect::OpenAi => openai::encode(request, &self.model, ready.endpoint.official),
        }
        .map_err(|source| ModelError::Encode { source })?
        .into();
        let mut tally = Tally::default();
        loop {
            tally.tries += 1;
            // On the heap: the states of an exchange are large, and this future is part of the
            // loop's.
            let attempt = Box::pin(self.attempt(&ready, body.clone(), on_delta));
            let (error, told_ms) = match attempt.await {
                Ok(answer) => return Ok(answer),
                Err(Setback::Final(error)) => return Err(error),
                Err(Setback::Passing { error, told_ms }) => (error, told_ms),
            };
            let unreachable = matches!(error, ModelError::Unreachable { .. });
            let random = getrandom::u64().unwrap_or_default();
            let Some(for_ms) = self.policy.wait_ms(tally, unreachable, told_ms, random) else {
                return Err(error.after_tries(tally.tries));
            };
            tracing::warn!(
                for_ms,
                tries = tally.tries,
                error = coordd_common::chain(&error),
                "waiting for the model"
            );
            on_delta(Delta::Waiting { for_ms, why: &error.why_waiting() });
            sleep(Duration::from_millis(for_ms)).await;
            tally.waited_ms = tally.waited_ms.saturating_add(for_ms);
        }
    }

    fn ready(&self) -> Result<Ready, ModelError> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let (dialect, endpoint) = match &self.source {
            Source::Anthropic(endpoint) => (Dialect::Anthropic, Arc::clone(endpoint)),
            Source::OpenAi(endpoint) => (Dialect::OpenAi, Arc::clone(endpoint)),
            Source::Rehearsal(rehearsal) => {
                let running = live.rehearsal.take().filter(|(server, _)| server.is_running());
                let (server, endpoint) = match running {
                    Some(running) => running,
                    None => start(rehearsal)?,
                };
                let kept = live.rehearsal.insert((server, endpoint));
                (Dialect::Anthropic, Arc::clone(&kept.1))
            }
        };
        let http = match &live.http {
            Some(http) => http.clone(),
            None => live.http.insert(http::client(&endpoint, self.patience)?).clone(),
        };
        Ok(Ready { http, dialect, endpoint })
    }

    async fn attempt(
        &self,
        ready: &Ready,
        body: Bytes,
        on_delta: OnDelta<'_>,
    ) -> Result<Answer, Setback> {
        let endpoint = &*ready.endpoint;
        let mut events =
            http::send(&ready.http, endpoint, body, &self.model, self.patience).await?;
        let mut decoder = Decoder::new(ready.dialect);
        let mut assembly = Assembly::default();
        let setback = loop {
            let progress = match events.next().await {
                Ok(Some(data)) => decoder.take(&data, &mut assembly, on_delta),
                Ok(None) => Ok(decoder.at_end()),
                Err(Fault(problem)) => Ok(Progress::Garbled(problem)),
            };
            break match progress {
                Ok(Progress::More) => continue,
                Ok(Progress::Ended(stop)) => return Ok(assembly.finish(Ending::Whole(stop))),
                Ok(Progress::Failed { status, error }) => {
                    let said = Said::from_value(endpoint, &error);
                    let none = reqwest::header::HeaderMap::new();
                    judge(endpoint, &self.model, status, None, &said, &none)
                }
                Ok(Progress::Garbled(problem)) => broken(endpoint, problem),
                Err(AnswerTooLong) => broken(endpoint, "the answer is too large".to_owned()),
            };
        };
        let answer = assembly.finish(Ending::Cut);
        // Partial work is kept; where there is none, the question is asked again.
        if answer.blocks.is_empty() {
            return Err(setback);
        }
        tracing::warn!(blocks = answer.blocks.len(), "the answer was cut off");
        Ok(answer)
    }
}

/// The embedded model's server and the endpoint that leads to it.
fn start(rehearsal: &Arc<Rehearsal>) -> Result<(Server, Arc<Endpoint>), ModelError> {
    let server = Server::start(Arc::clone(rehearsal))
        .map_err(|source| ModelError::RehearsalServer { source })?;
    let key = server.key();
    let endpoint = Endpoint::anthropic(Some(&server.base_url()), &|name| {
        (name == "ANTHROPIC_API_KEY").then(|| key.clone())
    })?;
    Ok((server, Arc::new(endpoint)))
}

struct Ready {
    http: reqwest::Client,
    dialect: Dialect,
    endpoint: Arc<Endpoint>,
}

/// What one event led to.
#[derive(Debug)]
pub(super) enum Progress {
    More,
    Ended(Stop),
    /// The server reports an error in the stream.
    Failed {
        status: u16,
        error: Value,
    },
    /// The stream cannot be read on.
    Garbled(String),
}

enum Decoder {
    Anthropic(anthropic::Decoder),
    OpenAi(openai::Decoder),
}

impl Decoder {
    fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Anthropic => Self::Anthropic(anthropic::Decoder::default()),
            Dialect::OpenAi => Self::OpenAi(openai::Decoder::default()),
        }
    }

    fn take(
        &mut self,
        data: &str,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<Progress, AnswerTooLong> {
        match self {
            Self::Anthropic(decoder) => decoder.take(data, assembly, on_delta),
            Self::OpenAi(decoder) => decoder.take(data, assembly, on_delta),
        }
    }

    fn at_end(&self) -> Progress {
        let stop = match self {
            Self::Anthropic(decoder) => decoder.at_end(),
            Self::OpenAi(decoder) => decoder.at_end(),
        };
        stop.map_or_else(
            || Progress::Garbled("the connection closed before the end".to_owned()),
            Progress::Ended,
        )
    }
}

#[cfg(test)]
mod tests;
