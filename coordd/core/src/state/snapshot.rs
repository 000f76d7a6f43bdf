//! The journal's beginning after a clean-up: the whole state, as records.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::state::bridge::Wish;
use crate::state::durable::Kept;
use crate::state::record::Record;
use crate::state::session::Session;
use crate::state::task::Task;
use crate::state::team::Team;

impl Kept {
    /// Records that make this state out of none: the journal's beginning after a clean-up.
    pub fn snapshot(&self) -> Vec<Record> {
        let mut records = Vec::new();
        records.push(Record::Counters {
            messages: self.last_message,
            permissions: self.last_permission,
            queued: self.last_queued,
        });
        if let Some(Wish { on, epoch }) = self.bridge {
            records.push(Record::BridgeSet { on, epoch });
        }
        // What may grow is apart from what holds it: a record stays far below what the store takes.
        for it in self.sessions.values() {
            let bare = Session { rules_learned: Vec::new(), ..it.clone() };
            records.push(Record::SessionPut { session: Box::new(bare) });
            let learned =
                |rule: &String| Record::RuleLearned { session: it.id.clone(), rule: rule.clone() };
            records.extend(it.rules_learned.iter().map(learned));
        }
        records.extend(
            self.agents.values().map(|it| Record::AgentPut { agent: Box::new(it.clone()) }),
        );
        records.extend(
            self.messages.values().map(|it| Record::MessagePut { message: Box::new(it.clone()) }),
        );
        records.extend(
            self.outbox.iter().map(|it| Record::OutgoingPut { outgoing: Box::new(it.clone()) }),
        );
        let permissions = self.permissions.values();
        records.extend(
            permissions.map(|it| Record::PermissionPut { permission: Box::new(it.clone()) }),
        );
        for it in self.teams.values() {
            let bare = Team { tasks: BTreeMap::new(), ..it.clone() };
            records.push(Record::TeamPut { team: Box::new(bare) });
            let task = |task: &Task| Record::TaskPut { team: it.name.clone(), task: task.clone() };
            records.extend(it.tasks.values().map(task));
        }
        records.extend(self.keys.iter().map(|((caller, key), (to, at_ms))| Record::Keyed {
            caller: caller.clone(),
            key: key.clone(),
            to: to.clone(),
            at_ms: *at_ms,
        }));
        records
    }
}
