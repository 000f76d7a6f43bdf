//! How often somebody outside may speak: a burst, and then one in an interval (A31).

use alloc::collections::BTreeMap;

use proto_words::address::Place;

use crate::state::limits;

/// How much each sender outside, and all together, may still say.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    all: Bucket,
    each: BTreeMap<Place, Bucket>,
}

/// Used-up places, one of which comes back in each interval.
#[derive(Debug, Default, Clone, Copy)]
struct Bucket {
    used: u32,
    since_mono_ms: u64,
}

impl Bucket {
    fn take(&mut self, mono_ms: u64, burst: u32, every_ms: u64) -> bool {
        let back = mono_ms.saturating_sub(self.since_mono_ms) / every_ms;
        self.used = self.used.saturating_sub(u32::try_from(back).unwrap_or(u32::MAX));
        self.since_mono_ms = self.since_mono_ms.saturating_add(back.saturating_mul(every_ms));
        if self.used == 0 {
            self.since_mono_ms = mono_ms;
        }
        let is_free = self.used < burst;
        self.used += u32::from(is_free);
        is_free
    }
}

impl Rates {
    pub(crate) fn allows(&mut self, sender: &Place, mono_ms: u64) -> bool {
        if !self.each.contains_key(sender) && self.each.len() >= limits::OUTSIDE_SENDERS_MAX {
            let oldest = self.each.iter().min_by_key(|(_, it)| it.since_mono_ms);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.each.remove(&oldest);
            }
        }
        let each = self.each.entry(sender.clone()).or_default();
        each.take(mono_ms, limits::OUTSIDE_BURST, limits::OUTSIDE_EVERY_MS)
            && self.all.take(mono_ms, limits::OUTSIDE_ALL_BURST, limits::OUTSIDE_ALL_EVERY_MS)
    }
}
