//! The client: one request, retries within limits, one answer.
//!
//! The HTTP client and the rehearsal server are made at the first question and can be let go
//! between questions, so that an idle agent holds neither.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::assembly::{AnswerTooLong, Assembly};
use super::decode::{Decoder, Dialect, Progress};
use super::encode::Spelling;
use super::ending::{self, End, Judged};
use super::endpoint::{Endpoint, Environment};
use super::error::{ModelError, Setback};
use super::http::{self, Events, Fault, PATIENCE, Patience};
use super::network::Network;
use super::rehearsal::{Rehearsal, Server};
use super::retry::{POLICY, Policy, Tally};
use super::said::Said;
use super::verdict::{Asked, Refused, judge};
use super::{
    Answer, Delta, ModelChoice, OnDelta, Provider, Request, anthropic, openai, responses, settings,
};

/// Asks one model.
#[derive(Debug)]
pub(crate) struct Client {
    source: Source,
    model: String,
    pub(super) policy: Policy,
    pub(super) patience: Patience,
    network: Network,
    live: Mutex<Live>,
}

#[derive(Debug)]
enum Source {
    Provider(Dialect, Arc<Endpoint>),
    Rehearsal(Arc<Rehearsal>),
}

/// What is made when it is needed.
#[derive(Debug, Default)]
struct Live {
    http: Option<reqwest::Client>,
    rehearsal: Option<(Server, Arc<Endpoint>)>,
    /// What was learnt of the server.
    spelling: Option<Spelling>,
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
                let endpoint = Endpoint::anthropic(base_url, environment)?;
                Source::Provider(Dialect::Messages, Arc::new(endpoint))
            }
            Provider::OpenAi => {
                let endpoint = Endpoint::openai(base_url, environment)?;
                Source::Provider(Dialect::Chat, Arc::new(endpoint))
            }
            Provider::Responses => {
                let endpoint = Endpoint::responses(base_url, environment)?;
                Source::Provider(Dialect::Responses, Arc::new(endpoint))
            }
            Provider::Rehearsal => {
                let rehearsal = Rehearsal::load(choice.rehearsal_file.as_deref())
                    .map_err(|source| ModelError::Script { source })?;
                Source::Rehearsal(Arc::new(rehearsal))
            }
        };
        let mut model = choice.model.trim().to_owned();
        if model.is_empty() {
            match source {
                Source::Provider(..) => return Err(ModelError::ModelMissing),
                Source::Rehearsal(_) => "rehearsal".clone_into(&mut model),
            }
        }
        let live = Mutex::default();
        let (mut patience, mut network) = (PATIENCE, Network::default());
        // What is set for other programs changes nothing for a script.
        if let Source::Provider(_, endpoint) = &source {
            patience.silence_ms = settings::silence_ms(environment)?.unwrap_or(PATIENCE.silence_ms);
            network = Network::of(endpoint, environment)?;
        }
        Ok(Self { source, model, policy: POLICY, patience, network, live })
    }

    /// The model and where it is, for a status line. A scripted model says so.
    pub(crate) fn describe(&self) -> String {
        match &self.source {
            Source::Provider(_, endpoint) => {
                format!("{} at {}", self.model, endpoint.shown)
            }
            Source::Rehearsal(rehearsal) => {
                format!("rehearsal (a script, no model): {}", rehearsal.origin())
            }
        }
    }

    /// Lets go of connections and of the rehearsal server until the next question.
    pub(crate) fn release(&self) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        (live.http, live.rehearsal) = (None, None);
    }

    /// Asks and waits for the whole answer; what can be shown meanwhile goes to `on_delta`.
    /// Dropping the future ends the request.
    pub(crate) async fn answer(
        &self,
        request: &Request,
        on_delta: OnDelta<'_>,
    ) -> Result<Answer, ModelError> {
        let ready = self.ready()?;
        let began = Instant::now();
        let mut tally = Tally::default();
        let (mut empty, mut lowered) = (false, false);
        loop {
            tally.tries += 1;
            // On the heap: the states of an exchange are large, and this future is part of the
            // loop's.
            let attempt = Box::pin(self.attempt(&ready, request, on_delta));
            let (mut error, told_ms) = match attempt.await {
                Ok(answer) => return Ok(answer),
                Err(Setback::Final(error)) => return Err(self.explained(&ready, error).await),
                Err(Setback::Adjusts { refused, error }) => {
                    let is_limit = matches!(refused, Refused::OutputLimit(_));
                    if (is_limit && std::mem::replace(&mut lowered, true)) || !self.learn(refused) {
                        return Err(error);
                    }
                    tracing::info!(?refused, "the request is sent as the server takes it");
                    continue;
                }
                Err(Setback::Empty(problem)) => {
                    let error = ModelError::Empty { url: ready.endpoint.shown.clone(), problem };
                    if std::mem::replace(&mut empty, true) {
                        return Err(error);
                    }
                    (error, None)
                }
                Err(Setback::Passing { error, told_ms }) => (error, told_ms),
            };
            let unreachable = if let ModelError::Unreachable { through, .. } = &mut error {
                *through = self.network.through();
                true
            } else {
                false
            };
            let random = getrandom::u64().unwrap_or_default();
            tally.passed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
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
        }
    }

    /// An unknown model's error says which ones are known.
    async fn explained(&self, ready: &Ready, mut error: ModelError) -> ModelError {
        if let ModelError::ModelUnknown { offered, .. } = &mut error {
            *offered = http::offered(&ready.http, &ready.endpoint, self.patience).await;
        }
        error
    }

    /// Takes note of what a server does not take. False where that was known: then it is not this.
    fn learn(&self, refused: Refused) -> bool {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(spelling) = &mut live.spelling else { return false };
        let before = *spelling;
        match refused {
            Refused::OutputLimit(limit) => {
                spelling.limit = Some(spelling.limit.map_or(limit, |it| it.min(limit)));
            }
            Refused::LimitName => spelling.new_limit_name = true,
            Refused::NewLimitName => spelling.new_limit_name = false,
            Refused::StreamOptions => spelling.stream_options = false,
            Refused::ToolChoice => spelling.tool_choice = false,
            Refused::CacheMarks => spelling.cache_marks = false,
            Refused::Reasoning => spelling.reasoning = false,
        }
        *spelling != before
    }

    fn ready(&self) -> Result<Ready, ModelError> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let (dialect, endpoint) = match &self.source {
            Source::Provider(dialect, endpoint) => (*dialect, Arc::clone(endpoint)),
            Source::Rehearsal(rehearsal) => {
                let running = live.rehearsal.take().filter(|(server, _)| server.is_running());
                let (server, endpoint) = match running {
                    Some(running) => running,
                    None => start(rehearsal)?,
                };
                let kept = live.rehearsal.insert((server, endpoint));
                (Dialect::Messages, Arc::clone(&kept.1))
            }
        };
        let http = match &live.http {
            Some(http) => http.clone(),
            None => {
                live.http.insert(http::client(&endpoint, &self.network, self.patience)?).clone()
            }
        };
        live.spelling.get_or_insert(Spelling::new(endpoint.official));
        Ok(Ready { http, dialect, endpoint })
    }

    fn spelling(&self, endpoint: &Endpoint) -> Spelling {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.spelling.unwrap_or(Spelling::new(endpoint.official))
    }

    async fn attempt(
        &self,
        ready: &Ready,
        request: &Request,
        on_delta: OnDelta<'_>,
    ) -> Result<Answer, Setback> {
        let endpoint = &*ready.endpoint;
        let spelling = self.spelling(endpoint);
        let body: Bytes = match ready.dialect {
            Dialect::Messages => anthropic::encode(request, &self.model, spelling),
            Dialect::Chat => openai::encode(request, &self.model, spelling),
            Dialect::Responses => responses::encode(request, &self.model, spelling),
        }
        .map_err(|source| Setback::Final(ModelError::Encode { source }))?
        .into();
        let asked = Asked {
            endpoint,
            model: &self.model,
            output_limit: spelling.limit(request),
            input_tokens: estimate(body.len()),
        };
        let mut events = http::send(&ready.http, asked, body, self.patience).await?;
        let tools = request.tools.iter().map(|tool| tool.name.clone()).collect();
        let mut decoder = Decoder::new(ready.dialect, tools);
        let mut assembly = Assembly::default();
        let end = read(&mut events, &mut decoder, &mut assembly, on_delta).await;
        let setback = match ending::judged(end, &events, assembly, endpoint) {
            Judged::Whole(answer) => return Ok(Answer { limit: asked.output_limit, ..answer }),
            Judged::Cut(answer) => {
                tracing::warn!(blocks = answer.blocks.len(), "the answer was cut off");
                return Ok(Answer { limit: asked.output_limit, ..answer });
            }
            Judged::Failed(error) => {
                let said = Said::from_value(endpoint, &error);
                judge(asked, said.status_in_stream(), &said, &http::no_headers())
            }
            Judged::Setback(setback) => setback,
        };
        Err(setback)
    }
}

/// Reads one answer to its end.
async fn read(
    events: &mut Events,
    decoder: &mut Decoder,
    assembly: &mut Assembly,
    on_delta: OnDelta<'_>,
) -> End {
    let end = loop {
        let event = match events.next(assembly.stop.is_some()).await {
            Ok(Some(event)) => event,
            Ok(None) => break End::Closed,
            Err(Fault(problem)) => break End::Broken(problem),
        };
        match decoder.take(&event, assembly, on_delta) {
            Ok(Progress::More) => {}
            Ok(Progress::Ended) => break End::Said,
            Ok(Progress::Failed(error)) => break End::Failed(error),
            Ok(Progress::Garbled(problem)) => break End::Garbled(problem),
            Err(AnswerTooLong) => break End::Garbled("the answer is too large".to_owned()),
        }
    };
    match decoder.end(assembly, on_delta) {
        Ok(()) => end,
        Err(AnswerTooLong) => End::Garbled("the answer is too large".to_owned()),
    }
}

/// The tokens in a request of so many bytes, as a rule of thumb: some four bytes are one.
fn estimate(body_len: usize) -> u64 {
    u64::try_from(body_len).unwrap_or(u64::MAX) / 4
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

#[cfg(test)]
mod tests;
