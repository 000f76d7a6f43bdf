//! One pass over the inboxes of a team: mail for members in terminals is put in, what they read and
//! wrote is reported.
//!
//! It must not wait for anything but a lock, for a moment, and the reactor.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use coordd_core::Input;
use coordd_core::id::MessageId;
use notify::{RecursiveMode, Watcher as _};
use proto::event::Event;
use proto::teammate::Entry;

use super::super::Terminal;
use super::{Fate, RETRY_MS, SETTLE_MS_MAX, TOLD_MS, Team, Thread};
use crate::process::terminals;
use crate::reactor::Arrival;
use crate::team_files::assigned::Assigns;
use crate::team_files::inbox::{InboxError, Inboxes as Folder, Letter};
use crate::translate;

/// Senders of a team that are no members and were warned of.
const STRANGERS_MAX: usize = 100;

impl Thread {
    /// One pass. Returns the time until the next one, if one is needed.
    pub(super) fn attend(
        &mut self,
        name: &str,
        team: &mut Team,
        is_final: bool,
    ) -> Result<Option<u64>, InboxError> {
        let Some(folder) = self.files.inboxes(name)? else {
            // The folder is being created, or was removed and is no longer wanted.
            if team.watched.is_some() {
                team.wanted.terminals.clear();
                return Ok(None);
            }
            return Ok(Some(if is_final { SETTLE_MS_MAX } else { RETRY_MS }));
        };
        self.watch(&folder, team)?;
        let mut is_unsettled = false;
        // First what they have read; that they are idle is reported after that.
        let mut terminals = std::mem::take(&mut team.wanted.terminals);
        let mut result = Ok(());
        for terminal in &mut terminals {
            match self.serve(&folder, terminal, team, is_final) {
                Ok(unsettled) => is_unsettled |= unsettled,
                Err(error) => result = Err(error),
            }
        }
        team.wanted.terminals = terminals;
        // An inbox that cannot be served must not keep the others from being read.
        let found = self.look(&folder, team, is_final)?;
        result?;
        Ok((is_unsettled || found).then_some(RETRY_MS))
    }

    fn watch(&mut self, folder: &Folder, team: &mut Team) -> Result<(), InboxError> {
        let id = folder.id()?;
        if team.watched == Some(id) {
            return Ok(());
        }
        if let (Some(watcher), Some(_)) = (&mut self.watcher, team.watched)
            && let Err(error) = watcher.unwatch(folder.path())
        {
            // It went with the folder that was there before, as a rule.
            tracing::debug!(%error, "inboxes were not watched");
        }
        if let Some(watcher) = &mut self.watcher
            && let Err(error) = watcher.watch(folder.path(), RecursiveMode::NonRecursive)
        {
            tracing::warn!(%error, "inboxes cannot be watched and are looked at every second");
            self.watcher = None;
        }
        folder.clear_locks()?;
        team.watched = Some(id);
        Ok(())
    }

    /// Returns whether the inbox has to be looked at again.
    fn serve(
        &self,
        folder: &Folder,
        terminal: &mut Terminal,
        team: &mut Team,
        is_final: bool,
    ) -> Result<bool, InboxError> {
        let (now, known) = (Instant::now(), &mut team.known);
        let mut letters: Vec<_> = terminal.letters.iter().map(|letter| letter.1.clone()).collect();
        for letter in &mut letters {
            let told = |it: &Assigns| team.assigned.was_told(&terminal.name, it, now);
            letter.is_written |= letter.assigns.as_ref().is_some_and(told);
        }
        if let Some(ours) = &terminal.ours {
            // Its sender was told that it came back.
            let is_wanted = |id: &str| letters.iter().any(|letter| letter.message == id);
            let is_given_up = |id: &str| id.starts_with(ours.as_str()) && !is_wanted(id);
            folder.take(&terminal.name, |it| !it.read && it.message().is_some_and(is_given_up))?;
        }
        let served = folder.serve(&terminal.name, &letters, is_final)?;
        team.assigned.note(&terminal.name, served.assigned, now);
        self.said_aside(&terminal.name, served.aside);
        let ids = |names: &[String], wanted: &dyn Fn(bool) -> bool| -> Vec<MessageId> {
            let is_it = |it: &&(MessageId, _)| {
                let (_, letter): &(MessageId, Letter) = it;
                names.contains(&letter.message) && wanted(letter.is_written)
            };
            terminal.letters.iter().filter(is_it).map(|letter| letter.0).collect()
        };
        let written = ids(&served.written, &|is_written| !is_written);
        let read = ids(&served.read, &|_| true);
        let agent = &terminal.agent;
        if !written.is_empty() {
            self.tell(Input::InboxWritten { agent: agent.clone(), messages: written });
        }
        if !read.is_empty() {
            self.tell(Input::InboxRead { agent: agent.clone(), messages: read });
        }
        // As the core knows it from here on.
        known.extend(served.written.iter().map(|it| (it.clone(), Fate::Written)));
        known.extend(served.read.iter().map(|it| (it.clone(), Fate::Read)));
        terminal.letters.retain(|letter| !served.read.contains(&letter.1.message));
        for (_, letter) in &mut terminal.letters {
            letter.is_written |= served.written.contains(&letter.message);
        }
        Ok(served.is_unsettled)
    }

    /// Reports entries for our agents. Returns whether another pass is needed.
    fn look(&self, folder: &Folder, team: &mut Team, is_final: bool) -> Result<bool, InboxError> {
        let now = Instant::now();
        let mut is_unsettled = false;
        let mut standing = BTreeSet::new();
        for inbox in folder.names()? {
            let is_theirs = |it: &Terminal| proto::teammate::inbox_name(&it.name) == inbox;
            if team.wanted.terminals.iter().any(is_theirs) {
                continue;
            }
            let found = folder.look(&inbox, is_final)?;
            is_unsettled |= found.is_unsettled;
            self.said_aside(&inbox, found.aside);
            for entry in found.entries {
                let key = translate::entry_key(&entry);
                let is_fresh = |it: &Instant| now < *it + Duration::from_millis(TOLD_MS);
                if !team.told.get(&key).is_some_and(is_fresh) && self.left(team, &inbox, &entry) {
                    team.told.insert(key.clone(), now);
                }
                standing.insert(key);
            }
        }
        team.told.retain(|key, _| standing.contains(key));
        Ok(is_unsettled)
    }

    /// Reports one entry. Returns whether the core was reached.
    fn left(&self, team: &mut Team, inbox: &str, entry: &Entry) -> bool {
        let name = &team.wanted.team;
        let Some(from) = team.wanted.terminals.iter().find(|terminal| terminal.name == entry.from)
        else {
            let sender: String = entry.from.chars().take(64).collect();
            if team.strangers.len() < STRANGERS_MAX && team.strangers.insert(sender.clone()) {
                let text = format!(
                    "`{sender}`, which is not a terminal member of team {name}, left a message for {inbox}; it stays in {inbox}'s inbox \
                     file. `coordctl team invite {name} {sender}` makes it a member"
                );
                tracing::warn!(text, "something was not as it should be");
                self.world.hub.publish("", Event::Warning { text });
            }
            return false;
        };
        let to = team.wanted.ours.iter().find(|it| it.0 == inbox).map(|it| &it.1);
        let left = translate::left(name, &from.agent, (inbox, to), entry);
        self.tell(Input::InboxLeft(Box::new(left)));
        true
    }

    pub(super) fn scan(&mut self) {
        let found = terminals::find(&self.world.paths.home);
        let mut changes = Vec::new();
        for team in self.teams.values_mut() {
            for it in &team.wanted.terminals {
                let now = found.get(&format!("{}@{}", it.name, team.wanted.team)).cloned();
                if team.processes.get(&it.agent).is_none_or(|before| *before != now) {
                    team.processes.insert(it.agent.clone(), now.clone());
                    changes.push((it.agent.clone(), now));
                }
            }
        }
        for (agent, process) in changes {
            self.tell(Input::TerminalSeen { agent, process });
        }
    }

    fn said_aside(&self, inbox: &str, aside: Option<PathBuf>) {
        if let Some(aside) = aside {
            let aside = aside.display();
            let text = format!(
                "the inbox file of {inbox} was not valid; it is kept as {aside}, and a new one was created"
            );
            // Fails only when the reactor has ended.
            let _told = self.world.reactor.blocking_send(Arrival::Degraded(text));
        }
    }

    fn tell(&self, input: Input) {
        // Fails only when the reactor has ended.
        let _told = self.world.reactor.blocking_send(Arrival::Input(input));
    }
}
