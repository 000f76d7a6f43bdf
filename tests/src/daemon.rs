//! The real coordd, in a sandbox of its own.

use std::fs::OpenOptions;
use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};

use proto::request::NewSession;
use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, Codec};
use crate::processes::Process;
use crate::rehearsal;
use crate::sandbox::{Sandbox, program};
use crate::wait;

/// A running daemon. It ends, with all that it started, when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    sandbox: Sandbox,
    process: Option<Child>,
    /// What it is started through, such as a program that sets limits.
    through: Vec<String>,
}

impl Deref for Daemon {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl DerefMut for Daemon {
    fn deref_mut(&mut self) -> &mut Sandbox {
        &mut self.sandbox
    }
}

impl Daemon {
    /// Starts one in a new sandbox, and waits until it answers.
    pub fn start() -> Self {
        Self::start_in(Sandbox::new())
    }

    /// Starts one in this sandbox.
    pub fn start_in(sandbox: Sandbox) -> Self {
        Self::start_through(sandbox, &[])
    }

    /// Starts one through a program that sets something up and becomes the command that follows.
    pub fn start_through(sandbox: Sandbox, through: &[&str]) -> Self {
        let through = through.iter().map(|it| (*it).to_owned()).collect();
        let mut daemon = Self { sandbox, process: None, through };
        daemon.restart();
        daemon
    }

    /// The command that starts it, in the foreground.
    pub fn foreground(sandbox: &Sandbox) -> Command {
        Self::foreground_through(sandbox, &[])
    }

    fn foreground_through(sandbox: &Sandbox, through: &[String]) -> Command {
        let all = [through, &["setpriv".to_owned()]].concat();
        let mut command = sandbox.command(&all[0]);
        command.args(&all[1..]);
        // Should this test be killed, the daemon goes too.
        command.args(["--pdeathsig", "KILL"]).arg(program("coordd")).arg("--foreground");
        let log = OpenOptions::new().create(true).append(true).open(sandbox.log()).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null());
        command
    }

    /// Starts it again, and waits until it answers.
    pub fn restart(&mut self) {
        assert!(self.process.is_none(), "it runs");
        let child =
            Self::foreground_through(&self.sandbox, &self.through).spawn().expect("coordd starts");
        self.process = Some(child);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&mut self) {
        let socket = self.sandbox.socket();
        let child = self.process.as_mut().expect("it was started");
        wait::until_true("coordd listens", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("coordd ended at once: {status}; its log is below");
            }
            UnixStream::connect(&socket).is_ok()
        });
        drop(self.client());
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    /// SIGKILL, and the wait for its end.
    pub fn kill9(&mut self) {
        let mut child = self.process.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and the wait for its end.
    pub fn stop(&mut self) -> ExitStatus {
        let mut child = self.process.take().expect("it runs");
        Process::open(child.id()).expect("it runs").signal(Signal::TERM);
        wait::until_within(std::time::Duration::from_secs(20), "coordd ends", || {
            child.try_wait().unwrap()
        })
    }

    /// Stops it in order; nothing may be left.
    pub fn stop_and_leave_nothing(mut self) {
        let status = self.stop();
        assert!(status.success(), "coordd ended with {status}");
        self.sandbox.assert_nothing_runs();
    }

    /// A connection in the binary codec; in lines where the daemon plays one of another revision.
    pub fn client(&self) -> Client {
        let is_later = self.vars().get("COORDD_TEST_LATER_BUILD").is_some_and(|it| it == "1");
        self.client_in(if is_later { Codec::Lines } else { Codec::Frames })
    }

    /// A connection.
    pub fn client_in(&self, codec: Codec) -> Client {
        Client::connect(&self.sandbox.socket(), codec)
    }

    /// A session to be made in the workspace, in this mode, with a script for its agents.
    pub fn rehearsal(&self, mode: &str, script: &Value) -> NewSession {
        rehearsal::session(&self.sandbox, mode, script)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.process.take() {
            // First, so that it starts nothing again that the sandbox ends.
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}
