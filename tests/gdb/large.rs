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

#[derive(Debug)]
struct Tiny {
    letter: u8,
    number: u32,
}

#[derive(Debug)]
struct Mixed {
    share: f64,
    count: u16,
}

#[derive(Debug)]
struct Floats {
    x: f32,
    y: f32,
}

#[derive(Debug)]
struct Only {
    share: f64,
}

#[derive(Debug)]
struct Three {
    numbers: [u32; 3],
}

#[inline(never)]
fn large_of(free: u64) -> Large {
    Large { weights: [1, 2, 3, 4], free }
}

#[inline(never)]
fn small_of(left: u32) -> Small {
    Small { left, right: 5 }
}

#[inline(never)]
fn tiny_of(number: u32) -> Tiny {
    Tiny { letter: 65, number }
}

#[inline(never)]
fn mixed_of(count: u16) -> Mixed {
    Mixed { share: 0.5, count }
}

#[inline(never)]
fn floats_of(x: f32) -> Floats {
    Floats { x, y: x * 3.0 }
}

#[inline(never)]
fn only_of(number: u32) -> Only {
    Only { share: f64::from(number) / 4.0 }
}

#[inline(never)]
fn three_of(number: u32) -> Three {
    Three { numbers: [number; 3] }
}

fn main() {
    println!("{:?} {:?} {:?}", tiny_of(70000), mixed_of(9), floats_of(1.5));
    println!("{:?} {:?}", only_of(5), three_of(5));
    for free in [7, 6] {
        println!("{:?} {:?}", large_of(free), small_of(3));
    }
}
