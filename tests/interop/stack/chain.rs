// SPDX-License-Identifier: GPL-2.0
//! Waits in a known chain of calls, and prints the ID of its process.

use std::io::{Read, Write};

#[inline(never)]
fn third(bytes: &mut [u8]) -> usize {
    println!("{}", std::process::id());
    std::io::stdout().flush().unwrap();
    std::io::stdin().read(bytes).unwrap()
}

#[inline(never)]
fn second<T: Into<usize>>(value: T) -> usize {
    let mut bytes = [0u8; 300];
    third(&mut bytes) + value.into() + bytes[17] as usize
}

#[inline(never)]
fn first(depth: u8) -> usize {
    second(depth) + 1
}

fn main() {
    std::process::exit((first(1) % 2) as i32);
}
