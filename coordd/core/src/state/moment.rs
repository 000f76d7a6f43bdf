//! The time, and the chance that comes with it.

/// When an input is looked at, and the chance that comes with it.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Milliseconds since 1970. For people: it may jump, so nothing is ordered or timed by it.
    pub wall_ms: u64,
    /// Milliseconds on a clock that never jumps, within one boot of the daemon.
    pub mono_ms: u64,
    /// Fresh randomness: ids and secrets of what this input makes come from it.
    pub random: [u8; 64],
}
