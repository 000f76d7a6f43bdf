//! Alternating blocks, the median of their ratios, and the table that is printed.

use std::time::{Duration, Instant};

/// One line of the table.
#[derive(Debug)]
struct Row {
    id: &'static str,
    what: String,
    ours: String,
    floor: String,
    ratio: String,
    goal: &'static str,
}

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

/// Two things measured in turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) ours: f64,
    pub(crate) floor: f64,
    /// The median of the blocks' ratios, which is not the ratio of the medians.
    pub(crate) ratio: f64,
}

impl Table {
    /// A figure beside its floor.
    pub(crate) fn pair(
        &mut self,
        id: &'static str,
        what: &str,
        pair: Pair,
        unit: &str,
        goal: &'static str,
    ) {
        let figure = |it: f64| format!("{} {unit}", digits(it));
        self.put(Row {
            id,
            what: what.to_owned(),
            ours: figure(pair.ours),
            floor: figure(pair.floor),
            ratio: format!("{:.2}", pair.ratio),
            goal,
        });
    }

    /// A figure that has no floor.
    pub(crate) fn figure(
        &mut self,
        id: &'static str,
        what: &str,
        ours: String,
        goal: &'static str,
    ) {
        let (floor, ratio) = (String::new(), String::new());
        self.put(Row { id, what: what.to_owned(), ours, floor, ratio, goal });
    }

    fn put(&mut self, row: Row) {
        eprintln!("{}: {}: {} {} {}", row.id, row.what, row.ours, row.floor, row.ratio);
        self.rows.push(row);
    }

    /// The table in Markdown.
    pub(crate) fn text(&self) -> String {
        let mut text =
            "| | what | coordd | floor | ratio | goal |\n| --- | --- | --- | --- | --- | --- |\n"
                .to_owned();
        for it in &self.rows {
            let line = [it.id, &it.what, &it.ours, &it.floor, &it.ratio, it.goal].join(" | ");
            text.push_str(&format!("| {line} |\n"));
        }
        text
    }
}

fn digits(it: f64) -> String {
    if it >= 100.0 { format!("{it:.0}") } else { format!("{it:.2}") }
}

/// Measures both in turns, first this one and then that one first.
pub(crate) fn in_turns(
    blocks: usize,
    mut ours: impl FnMut() -> f64,
    mut floor: impl FnMut() -> f64,
) -> Pair {
    let mut all = Vec::with_capacity(blocks);
    for block in 0..blocks {
        let pair = if block % 2 == 0 {
            let ours = ours();
            (ours, floor())
        } else {
            let floor = floor();
            (ours(), floor)
        };
        all.push(pair);
    }
    Pair {
        ours: median(all.iter().map(|it| it.0).collect()),
        floor: median(all.iter().map(|it| it.1).collect()),
        ratio: median(all.iter().map(|it| it.0 / it.1).collect()),
    }
}

/// The median of some times, in microseconds.
pub(crate) fn p50_us(times: usize, once: impl FnMut()) -> f64 {
    median(times_us(times, once))
}

/// So many times, in microseconds.
pub(crate) fn times_us(times: usize, mut once: impl FnMut()) -> Vec<f64> {
    let measured = |_| {
        let began = Instant::now();
        once();
        us(began.elapsed())
    };
    (0..times).map(measured).collect()
}

pub(crate) fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

pub(crate) fn median(values: Vec<f64>) -> f64 {
    at_share(values, 0.5)
}

/// The value that this share of all is below.
pub(crate) fn at_share(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() - 1) as f64 * share).round();
    values[at as usize]
}
