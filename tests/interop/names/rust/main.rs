// SPDX-License-Identifier: GPL-2.0
// A program of known shape: functions that are inlined in each other, generics, closures, traits and
// modules, in two files.

/// An instruction whose address is noted, wherever it is inlined, in the section .marks.
macro_rules! mark {
    ($name:literal) => {
        unsafe {
            std::arch::asm!(
                "2: nop",
                ".pushsection .marks, \"R?\", @progbits",
                ".quad 2b",
                concat!(".asciz \"", $name, "\""),
                ".popsection",
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}

mod shapes;

use shapes::{Counter, Pair, Shape};

#[inline(always)]
fn depth1(n: u64) -> u64 {
    mark!("depth");
    n.wrapping_add(1)
}

#[inline(always)]
fn depth2(n: u64) -> u64 {
    depth1(n).wrapping_mul(2)
}

#[inline(always)]
fn depth3(n: u64) -> u64 {
    let first = depth2(n);
    first ^ depth1(n)
}

#[inline(never)]
fn deep(n: u64) -> u64 {
    depth3(n).wrapping_add(1)
}

#[inline(never)]
fn closures(n: u64) -> u64 {
    let mut counter = Counter { total: n };
    let hidden = move |x: u64| {
        mark!("closure");
        x ^ n
    };
    counter.each(n, hidden) ^ counter.each(n, |x| {
        mark!("second closure");
        let within = |y: u64| {
            mark!("closure in a closure");
            y.wrapping_add(n)
        };
        within(x)
    })
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn plain(n: u64) -> u64 {
    mark!("extern C");
    n ^ 3
}

fn main() {
    let n = std::env::args().count() as u64;
    let shapes: [Box<dyn Shape>; 3] = [
        Box::new(Pair(n as u8, 1)),
        Box::new(Pair(n as u32, 2)),
        Box::new(Counter { total: n }),
    ];
    let mut sum = deep(n) ^ closures(n) ^ plain(n) ^ shapes::inner::deep([n; 5]);

    mark!("main");
    for shape in shapes.iter() {
        sum ^= shape.area(n) ^ shape.described(n);
    }
    std::process::exit(if sum == 0x1234567 { 1 } else { 0 });
}
