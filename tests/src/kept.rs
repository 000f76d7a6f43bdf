//! A daemon that is started again whenever it dies, as a service manager would.

use std::ops::Deref;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::daemon::Daemon;
use crate::sandbox::Sandbox;

/// Between two looks at whether it lives.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A sandbox with a daemon that comes back.
#[derive(Debug)]
pub struct Kept {
    sandbox: Arc<Sandbox>,
    over: Arc<AtomicBool>,
    keeper: Option<JoinHandle<u32>>,
}

impl Deref for Kept {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Kept {
    /// Starts one by this command; after it has died, a plain one takes its place, again and again.
    pub fn start(sandbox: Sandbox, first: impl FnOnce(&Sandbox) -> Command) -> Self {
        let sandbox = Arc::new(sandbox);
        let over = Arc::new(AtomicBool::new(false));
        let mut child = first(&sandbox).spawn().expect("coordd starts");
        let keeper = std::thread::spawn({
            let (sandbox, over) = (Arc::clone(&sandbox), Arc::clone(&over));
            move || {
                let mut deaths = 0;
                while !over.load(Ordering::SeqCst) {
                    if child.try_wait().unwrap().is_some() {
                        deaths += 1;
                        child = Daemon::foreground(&sandbox).spawn().expect("coordd starts");
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
                end(child);
                deaths
            }
        });
        Self { sandbox, over, keeper: Some(keeper) }
    }

    /// Ends the present one. Returns how often one died before.
    pub fn end(&mut self) -> u32 {
        self.over.store(true, Ordering::SeqCst);
        self.keeper.take().map_or(0, |it| it.join().expect("the keeper"))
    }
}

fn end(mut child: Child) {
    let _gone = child.kill();
    let _reaped = child.wait();
}

impl Drop for Kept {
    fn drop(&mut self) {
        // First, so that nothing is started again that the sandbox ends.
        self.over.store(true, Ordering::SeqCst);
        if let Some(keeper) = self.keeper.take() {
            let _panicked = keeper.join();
        }
    }
}
