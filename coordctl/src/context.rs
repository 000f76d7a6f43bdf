//! What every command works with: where things lie, whether to print JSON, and the connection.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use proto::error::{ErrorBody, ErrorCode};
use proto::request::Request;
use proto::response::Response;

use crate::client::{Ask, Client, ClientError};
use crate::error::Failure;
use crate::paths::{self, Paths, Vars};
use crate::terminal::Style;

/// The surroundings of one command.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) vars: Vars,
    pub(crate) paths: Paths,
    pub(crate) json: bool,
    pub(crate) style: Style,
    client: Option<Client>,
}

impl Context {
    pub(crate) fn new(json: bool) -> Result<Self, Failure> {
        let vars = crate::env::current();
        let paths = Paths::of(&vars, coordd_common::processes::euid())?;
        let var = |name: &str| vars.get(name).map(String::as_str);
        let style = Style::of(std::io::stdout().is_terminal(), var("NO_COLOR"), var("TERM"));
        let style = style.with_columns(crate::terminal::columns(std::io::stdout()));
        Ok(Self { paths, json, style, client: None, vars })
    }

    /// Where the environment does not say where sockets are, a login session's usual folder is
    /// taken.
    pub(crate) fn use_login_runtime_folder(&mut self) -> Result<(), Failure> {
        let uid = coordd_common::processes::euid();
        let usual = paths::login_runtime_folder(uid);
        if let Some(folder) = paths::missing_runtime_folder(&self.vars, usual, uid) {
            self.vars.insert("XDG_RUNTIME_DIR".to_owned(), folder);
            self.paths = Paths::of(&self.vars, uid)?;
        }
        Ok(())
    }

    /// The folder in which the command was given.
    pub(crate) fn cwd() -> Result<PathBuf, Failure> {
        std::env::current_dir().map_err(|error| {
            Failure::failed(format!("the current folder cannot be used: {error}"))
                .hint("it may have been removed; `cd` to one that exists")
        })
    }

    /// Asks coordd, which is started if it does not run.
    pub(crate) fn call(&mut self, request: Request) -> Result<Response, Failure> {
        self.call_or_denied(request)?.map_err(Failure::from)
    }

    /// As [`Self::call`], with coordd's refusal as an answer of its own.
    pub(crate) fn call_or_denied(
        &mut self,
        request: Request,
    ) -> Result<Result<Response, ErrorBody>, Failure> {
        let ask = Ask::new(request);
        let result = match self.try_call(&ask) {
            // No daemon runs, or it is being restarted. The idempotency key keeps the request from
            // being done twice.
            Err(error) if is_restart(&error) => {
                crate::start::start(&self.paths, &self.vars)?;
                self.try_call(&ask)
            }
            result => result,
        };
        match result {
            Ok(response) => Ok(Ok(response)),
            Err(ClientError::Denied(body)) => Ok(Err(body)),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks coordd only if it runs.
    pub(crate) fn call_running(&mut self, request: Request) -> Result<Response, ClientError> {
        self.try_call(&Ask::new(request))
    }

    /// A connection of its own, whose first request makes it one for events.
    pub(crate) fn open(&mut self, request: Request) -> Result<(Client, Response), Failure> {
        let ask = Ask::new(request);
        match Client::open(&self.paths.socket, &ask) {
            Err(error) if is_restart(&error) => {
                crate::start::start(&self.paths, &self.vars)?;
                Ok(Client::open(&self.paths.socket, &ask)?)
            }
            opened => Ok(opened?),
        }
    }

    /// The version of the daemon that answered last.
    pub(crate) fn daemon_version(&self) -> Option<&str> {
        self.client.as_ref().map(|client| client.welcome().version.as_str())
    }

    fn try_call(&mut self, ask: &Ask) -> Result<Response, ClientError> {
        let result = match self.client.take() {
            Some(mut client) => client.call(ask).map(|response| (client, response)),
            None => Client::open(&self.paths.socket, ask),
        };
        let (client, response) = result?;
        self.client = Some(client);
        Ok(response)
    }
}

/// Whether a daemon is to be started, or waited for, before asking again.
fn is_restart(error: &ClientError) -> bool {
    match error {
        ClientError::NoDaemon { .. } | ClientError::Lost => true,
        ClientError::Denied(body) => body.code == ErrorCode::ShuttingDown,
        ClientError::Foreign { .. }
        | ClientError::Silent { .. }
        | ClientError::Skew { .. }
        | ClientError::Unreadable { .. }
        | ClientError::NotKnown { .. }
        | ClientError::TooLarge
        | ClientError::Io { .. } => false,
    }
}

/// What to say when coordd answers with something else than the request comes to.
pub(crate) fn unexpected(wanted: &str) -> Failure {
    Failure::failed(format!("coordd gave an unexpected answer, not `{wanted}`"))
        .hint("install coordd and coordctl of the same version, then run `coordctl daemon restart`")
}

/// The fields of the response that a request must get.
#[macro_export]
macro_rules! expect {
    ($response:expr, $variant:ident { $($fields:tt)* }) => {
        let proto::response::Response::$variant { $($fields)* } = $response else {
            return Err($crate::context::unexpected(stringify!($variant)).into());
        };
    };
}
