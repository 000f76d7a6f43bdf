//! Requests by name: for rules about who may ask for what, and for words on the wire.

use super::Request;

/// Makes a kind of each request, with its name on the wire. A request that is missing here does not compile.
macro_rules! kinds {
    ($($kind:ident $name:literal)*) => {
        /// A request's name, without what it carries.
        #[expect(missing_docs, reason = "the variants are those of `Request`")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// Every kind there is.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// The name on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }

        impl Request {
            /// Which one it is.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind { .. } => Kind::$kind,)*
                }
            }
        }
    };
}

kinds! {
    Ping "ping"
    DaemonStatus "daemon_status"
    DaemonStop "daemon_stop"
    SessionNew "session_new"
    SessionList "session_list"
    SessionShow "session_show"
    SessionStop "session_stop"
    SessionResume "session_resume"
    SessionRemove "session_remove"
    Join "join"
    Prompt "prompt"
    Interrupt "interrupt"
    Send "send"
    Receipt "receipt"
    PeerList "peer_list"
    InboundList "inbound_list"
    InboundAnswer "inbound_answer"
    InboundSet "inbound_set"
    AgentSpawn "agent_spawn"
    AgentStop "agent_stop"
    AgentShow "agent_show"
    Transcript "transcript"
    PermissionAsk "permission_ask"
    PermissionList "permission_list"
    PermissionAnswer "permission_answer"
    StructuredOutput "structured_output"
    TeamCreate "team_create"
    TeamDelete "team_delete"
    TeamList "team_list"
    TeamShow "team_show"
    TeamInvite "team_invite"
    TaskCreate "task_create"
    TaskList "task_list"
    TaskGet "task_get"
    TaskUpdate "task_update"
    ScratchpadList "scratchpad_list"
    ScratchpadShow "scratchpad_show"
    Usage "usage"
    Subscribe "subscribe"
    Attach "attach"
    Screen "screen"
    ScreenInput "screen_input"
    TerminalEnded "terminal_ended"
    Acknowledge "acknowledge"
    RunEnded "run_ended"
    BridgeSet "bridge_set"
    BridgeAllow "bridge_allow"
    BridgeStatus "bridge_status"
    BridgeTold "bridge_told"
    BridgeBring "bridge_bring"
    BridgeReport "bridge_report"
}
