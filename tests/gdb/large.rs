#[derive(Debug)]
struct Large {
    weights: [u32; 4],
    free: u64,
}

#[derive(Debug)]
struct Small {
    left: u32,
    right: u64,
}

#[inline(never)]
fn large_of(free: u64) -> Large {
    Large { weights: [1, 2, 3, 4], free }
}

#[inline(never)]
fn small_of(left: u32) -> Small {
    Small { left, right: 5 }
}

fn main() {
    for free in [7, 6] {
        println!("{:?} {:?}", large_of(free), small_of(3));
    }
}
