//! Between rmcp's requests and a backend: which protocol versions, which methods, how many calls at
//! once.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam,
    ContentBlock, ErrorData, Implementation, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::transport::Written;
use super::{Answer, Backend, Call};
use crate::model::ToolSpec;
use crate::tools::ToolOutput;

/// Calls that one client may have open: every tool call of one message of a model.
const CALLS_OPEN_MAX: usize = 64;

/// The newest version served. The one after it has no handshake, and every client that speaks it
/// falls back to this one.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The server for one client.
pub(super) struct Server<B> {
    backend: Rc<B>,
    written: Written,
    closing: CancellationToken,
    calls_open: Rc<Cell<usize>>,
}

/// A call in work.
struct Place(Rc<Cell<usize>>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl<B: Backend> Server<B> {
    pub(super) fn new(backend: Rc<B>, written: Written, closing: CancellationToken) -> Self {
        Self { backend, written, closing, calls_open: Rc::default() }
    }

    fn place(&self) -> Option<Place> {
        let open = self.calls_open.get();
        (open < CALLS_OPEN_MAX).then(|| {
            self.calls_open.set(open + 1);
            Place(Rc::clone(&self.calls_open))
        })
    }

    async fn answer(
        &self,
        request: CallToolRequestParams,
        cancelled: &CancellationToken,
    ) -> Result<Answer, ErrorData> {
        let known = self.backend.tools();
        if !known.iter().any(|it| it.name == request.name) {
            let names: Vec<&str> = known.iter().map(|it| it.name.as_str()).collect();
            let name = crate::tools::cut(&request.name, 80);
            let text =
                format!("There is no tool {name:?} here. The tools are: {}.", names.join(", "));
            return Err(ErrorData::invalid_params(text, None));
        }
        let Some(_place) = self.place() else {
            let text =
                format!("{CALLS_OPEN_MAX} calls are open. Wait for some of them, then call again.");
            return Ok(ToolOutput::error(text).into());
        };
        let call = Call {
            tool: request.name.into_owned(),
            input: Value::Object(request.arguments.unwrap_or_default()),
            closing: self.closing.clone(),
        };
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(ErrorData::internal_error("The call was cancelled.", None)),
            answer = self.backend.call(call) => Ok(answer),
        }
    }
}

impl<B: Backend> ServerHandler for Server<B> {
    fn get_info(&self) -> InitializeResult {
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
            .with_protocol_version(NEWEST)
            .with_server_info(Implementation::new("coordd", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.backend.instructions())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&NEWEST))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.backend.tools().into_iter().map(tool).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Answer { output, written } = self.answer(request, &context.ct).await?;
        if let Some(written) = written {
            self.written.expect(context.id, written);
        }
        let blocks = vec![ContentBlock::text(output.text)];
        let result = if output.is_error {
            CallToolResult::error(blocks)
        } else {
            CallToolResult::success(blocks)
        };
        Ok(result.into())
    }

    async fn on_cancelled(
        &self,
        cancelled: CancelledNotificationParam,
        _context: NotificationContext<RoleServer>,
    ) {
        // The answer was ready already, but it is no longer sent.
        if let Some(id) = cancelled.request_id {
            self.written.forget(&id);
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Some(client) = context.peer.peer_info() {
            let who = &client.client_info;
            tracing::info!(client = who.name, version = who.version, "serving a client");
        }
    }
}

fn tool(spec: ToolSpec) -> Tool {
    let schema = spec.input_schema.as_object().cloned().unwrap_or_default();
    Tool::new(spec.name, spec.description, Arc::new(schema))
}
