// SPDX-License-Identifier: GPL-2.0
#[inline(always)]
pub fn square(x: u64) -> u64 {
    mark!("square");
    x.wrapping_mul(x)
}

#[inline(always)]
pub fn twice(x: u64) -> u64 {
    mark!("twice");
    square(x).wrapping_add(x)
}

pub trait Shape {
    fn area(&self, n: u64) -> u64;

    #[inline(never)]
    fn described(&self, n: u64) -> u64 {
        mark!("default method");
        self.area(n) ^ 1
    }
}

pub struct Counter {
    pub total: u64,
}

impl Counter {
    #[inline(never)]
    pub fn add(&mut self, x: u64) {
        mark!("method");
        self.total = self.total.wrapping_add(twice(x));
    }

    #[inline(never)]
    pub fn each<F: Fn(u64) -> u64>(&mut self, n: u64, f: F) -> u64 {
        let mut i = 0;
        while i < n {
            mark!("generic method");
            self.add(f(i));
            i += 1;
        }
        self.total
    }
}

impl Shape for Counter {
    #[inline(never)]
    fn area(&self, n: u64) -> u64 {
        mark!("trait method");
        self.total ^ n
    }
}

pub struct Pair<T>(pub T, pub T);

impl<T: Copy + Into<u64>> Shape for Pair<T> {
    #[inline(never)]
    fn area(&self, n: u64) -> u64 {
        mark!("trait method of a generic type");
        square(self.0.into()) ^ self.1.into() ^ n
    }
}

impl Drop for Counter {
    #[inline(never)]
    fn drop(&mut self) {
        mark!("drop");
        self.total = 0;
    }
}

pub mod inner {
    #[inline(never)]
    pub fn deep<const N: usize>(x: [u64; N]) -> u64 {
        mark!("constant generic");
        super::twice(x[0])
    }
}
