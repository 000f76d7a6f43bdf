//! Who may ask for what (C-1). The connection decides who someone is; a field in a request never does.

use crate::state::request::Kind;
use crate::state::role::{Asker, Role};

/// Whether this asker may ask for this. The whole of the rule: what is not here is not allowed.
pub(super) fn may(asker: Asker, kind: Kind) -> bool {
    match kind {
        Kind::Ping => true,
        // Names and states: what was said, asked or written is not among it.
        Kind::DaemonStatus
        | Kind::SessionList
        | Kind::SessionShow
        | Kind::AgentShow
        | Kind::TeamList
        | Kind::TeamShow
        | Kind::TaskList
        | Kind::TaskGet
        | Kind::Usage => matches!(asker, Asker::User | Asker::Program),
        Kind::Join
        | Kind::DaemonStop
        | Kind::SessionNew
        | Kind::SessionStop
        | Kind::SessionResume
        | Kind::SessionRemove
        | Kind::Prompt
        | Kind::Interrupt
        | Kind::Receipt
        | Kind::InboundList
        | Kind::InboundAnswer
        | Kind::InboundSet
        | Kind::BridgeSet
        | Kind::BridgeAllow
        | Kind::BridgeStatus
        | Kind::Transcript
        | Kind::PermissionList
        | Kind::PermissionAnswer
        | Kind::TeamInvite
        | Kind::TaskCreate
        | Kind::TaskUpdate
        | Kind::ScratchpadList
        | Kind::ScratchpadShow
        | Kind::Subscribe
        | Kind::Attach
        | Kind::Screen
        | Kind::ScreenInput => asker == Asker::User,
        Kind::Send | Kind::PeerList => {
            matches!(asker, Asker::User | Asker::Agent(Role::Coordinator | Role::Lead | Role::Peer))
        }
        Kind::AgentStop | Kind::TeamCreate | Kind::TeamDelete => match asker {
            Asker::User | Asker::Agent(Role::Coordinator | Role::Lead) => true,
            Asker::Agent(Role::Worker | Role::Peer) | Asker::Program | Asker::Bridge => false,
        },
        Kind::TerminalEnded => asker == Asker::Agent(Role::Worker),
        Kind::AgentSpawn => matches!(asker, Asker::Agent(Role::Coordinator | Role::Lead)),
        Kind::StructuredOutput => asker == Asker::Agent(Role::Coordinator),
        Kind::PermissionAsk => matches!(asker, Asker::Agent(Role::Lead | Role::Worker)),
        Kind::Acknowledge => matches!(asker, Asker::Agent(_)),
        Kind::RunEnded => {
            matches!(asker, Asker::Agent(Role::Coordinator | Role::Lead | Role::Worker))
        }
        Kind::BridgeTold | Kind::BridgeBring | Kind::BridgeReport => asker == Asker::Bridge,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn allowed(asker: Asker) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| may(asker, *kind)).collect()
    }

    #[test]
    fn c1_m1_a_coordinator_may_orchestrate_and_nothing_else() {
        use Kind::*;
        let want = [
            Ping,
            Send,
            PeerList,
            AgentSpawn,
            AgentStop,
            StructuredOutput,
            TeamCreate,
            TeamDelete,
            Acknowledge,
            RunEnded,
        ];
        assert_eq!(allowed(Asker::Agent(Role::Coordinator)), want);
    }

    #[test]
    fn w2_c6_a_worker_may_ask_for_approval_and_report() {
        use Kind::*;
        assert_eq!(
            allowed(Asker::Agent(Role::Worker)),
            [Ping, PermissionAsk, TerminalEnded, Acknowledge, RunEnded]
        );
    }

    #[test]
    fn f1_a_lead_may_delegate_and_ask() {
        use Kind::*;
        let want = [
            Ping,
            Send,
            PeerList,
            AgentSpawn,
            AgentStop,
            PermissionAsk,
            TeamCreate,
            TeamDelete,
            Acknowledge,
            RunEnded,
        ];
        assert_eq!(allowed(Asker::Agent(Role::Lead)), want);
    }

    /// L-4: who only takes part can start, stop and answer nothing.
    #[test]
    fn l4_a_peer_may_write_and_read_and_nothing_else() {
        use Kind::*;
        assert_eq!(allowed(Asker::Agent(Role::Peer)), [Ping, Send, PeerList, Acknowledge]);
        for asker in Asker::ALL {
            assert_eq!(may(asker, Join), asker == Asker::User);
        }
    }

    /// FP-14: a program that an agent started is not the user.
    #[test]
    fn fp14_a_program_of_an_agent_may_look_at_names_and_states() {
        use Kind::*;
        let want = [
            Ping,
            DaemonStatus,
            SessionList,
            SessionShow,
            AgentShow,
            TeamList,
            TeamShow,
            TaskList,
            TaskGet,
            Usage,
        ];
        let mut got = allowed(Asker::Program);
        got.sort_by_key(|kind| want.iter().position(|it| it == kind));
        assert_eq!(got, want);
    }

    #[test]
    fn m7_m8_the_bridge_may_carry_and_nothing_else() {
        use Kind::*;
        assert_eq!(allowed(Asker::Bridge), [Ping, BridgeTold, BridgeBring, BridgeReport]);
        for asker in Asker::ALL {
            assert_eq!(may(asker, BridgeAllow), asker == Asker::User);
            assert_eq!(may(asker, BridgeSet), asker == Asker::User);
        }
    }

    #[test]
    fn m8_only_a_user_may_approve() {
        for asker in Asker::ALL {
            // An agent that types into another one's terminal is that agent.
            assert_eq!(may(asker, Kind::ScreenInput), asker == Asker::User);
            assert_eq!(may(asker, Kind::Screen), asker == Asker::User);
            assert_eq!(may(asker, Kind::PermissionAnswer), asker == Asker::User);
            assert_eq!(may(asker, Kind::Prompt), asker == Asker::User);
            assert_eq!(may(asker, Kind::InboundAnswer), asker == Asker::User);
            assert_eq!(may(asker, Kind::InboundSet), asker == Asker::User);
        }
    }
}
