//! Ten bugs that were other people's, for the simulation to find. Each breaks one rule where the rule is kept, and only in a
//! test that has planted it: in every other build [`is_planted`] is `false` for the compiler too, and nothing is left of it.
//!
//! Which seed finds which is told by the tests in `sim/planted.rs`.

/// A bug, by its row in CASES.md.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Bug {
    /// A message leaves the mailbox when it is handed over, before it is acknowledged.
    A9,
    /// Mail that is left wakes an agent that was stopped.
    A13,
    /// A later message overtakes an earlier one.
    A17,
    /// Whoever sent what goes back is not told.
    A21,
    /// The end of an earlier process is taken for the end of the present one.
    A33,
    /// A call repeated with its key has its effect again.
    A39,
    /// The lead is not notified while it is in the middle of a run.
    B1,
    /// A removal is answered without being recorded.
    C13,
    /// After a start, processes that live on are taken for gone, and others started in their place.
    D13,
    /// How a run ended, once told, is told and recorded again.
    E3,
}

#[cfg(not(test))]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}

#[cfg(test)]
pub(crate) use switch::is_planted;

#[cfg(test)]
pub(crate) mod switch {
    #[cfg(test)]
    extern crate std;

    use super::Bug;
    use core::cell::Cell;

    std::thread_local! {
        // Of a thread, since tests run beside each other in one process.
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    pub(crate) fn is_any_planted() -> bool {
        PLANTED.get().is_some()
    }

    /// Does something with a bug planted. It must not panic, or the bug stays.
    pub(crate) fn with<T>(bug: Bug, act: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(bug));
        let result = act();
        PLANTED.set(None);
        result
    }
}
