//! The cost of Claude Code's turns, by its own estimate.
//!
//! Observed: a result tells the total of its conversation (`total_cost_usd`), which a process that
//! goes on with one may take up or not. 2.1.332 also tells what no result has told yet
//! (`model_usage_since_last_result`), which is to be summed up. What a process spent after its last
//! result is told by nobody.

use super::wire::Ended;

/// The total that was last told.
#[derive(Debug, Default)]
pub(super) struct Cost {
    total_micro_usd: u64,
}

impl Cost {
    /// For a process that begins with this total.
    pub(super) fn after(spent_micro_usd: u64) -> Self {
        Self { total_micro_usd: spent_micro_usd }
    }

    /// What a turn cost.
    pub(super) fn of(&mut self, ended: &Ended) -> u64 {
        let total = ended.cost_total_micro_usd;
        let before = std::mem::replace(&mut self.total_micro_usd, total);
        // A total below the last one began anew.
        let risen = total.checked_sub(before).unwrap_or(total);
        ended.cost_since_micro_usd.unwrap_or(risen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_a_turn_costs_what_it_says_or_what_the_total_has_risen_by() {
        let told = |total, since| Ended {
            cost_total_micro_usd: total,
            cost_since_micro_usd: since,
            ..Ended::default()
        };
        let mut fresh = Cost::default();
        assert_eq!([fresh.of(&told(5, None)), fresh.of(&told(12, None))], [5, 7]);
        let mut gone_on = Cost::after(12);
        assert_eq!([gone_on.of(&told(15, None)), gone_on.of(&told(15, None))], [3, 0]);
        // A process that does not know what was before it.
        assert_eq!(Cost::after(12).of(&told(2, None)), 2);
        assert_eq!(Cost::after(12).of(&told(90, Some(4))), 4);
    }
}
