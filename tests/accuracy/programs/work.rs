// SPDX-License-Identifier: GPL-2.0
//! work SECONDS: sorts, formats, counts words and catches panics.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[inline(never)]
fn sorted(seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut values: Vec<u64> = (0..500)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        })
        .collect();
    values.sort_by(|left, right| right.cmp(left));
    values
}

#[inline(never)]
fn words(values: &[u64]) -> usize {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(format!("word {}", value % 100)).or_default() += 1;
    }
    counts.len()
}

#[inline(never)]
fn descend(depth: u32) -> u32 {
    let text = "x".repeat(depth as usize + 10);
    if depth == 0 {
        panic!("the end");
    }
    descend(depth - 1) + text.len() as u32
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.5);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut sum = 0;
    std::panic::set_hook(Box::new(|_| {}));
    while Instant::now() < end {
        sum += words(&sorted(sum as u64 + 1));
        sum += std::panic::catch_unwind(|| descend(8)).is_err() as usize;
    }
    std::process::exit((sum == 0) as i32);
}
