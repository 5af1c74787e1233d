//! Functions to be run, of kinds that programs have.

use core::hint::black_box;

pub type Function = extern "C" fn(u64) -> u64;

/// Each with its name and an argument that lets it run for about 0.1 s.
pub const ALL: [(&str, Function, u64); 9] = [
    ("arithmetic", arithmetic, 60_000_000),
    ("collatz", collatz, 300_000),
    ("sieve", sieve, 12_000_000),
    ("fibonacci", fibonacci, 34),
    ("sort", sort, 400_000),
    ("interpreter", interpreter, 10_000_000),
    ("pointers", pointers, 20_000_000),
    ("floats", floats, 20_000_000),
    ("format", format_numbers, 300_000),
];

// Not on the heap: a run may end anywhere.
struct Global<T>(core::cell::UnsafeCell<T>);
// SAFETY: whoever runs one of the functions has the lock.
unsafe impl<T> Sync for Global<T> {}
static COMPOSITE: Global<[bool; 12_000_000]> = Global(core::cell::UnsafeCell::new([false; 12_000_000]));
static UNSORTED: Global<[u64; 400_000]> = Global(core::cell::UnsafeCell::new([0; 400_000]));

extern "C" fn arithmetic(rounds: u64) -> u64 {
    let (mut a, mut b) = (1u64, 2u64);
    for index in 0..rounds {
        a = a.wrapping_mul(6364136223846793005).wrapping_add(index);
        b ^= a >> 33;
    }
    a ^ b
}

extern "C" fn collatz(most: u64) -> u64 {
    let mut longest = 0;
    for start in 1..most {
        let (mut value, mut steps) = (start, 0u64);
        while value != 1 {
            value = if value & 1 == 0 { value / 2 } else { 3 * value + 1 };
            steps += 1;
        }
        longest = longest.max(steps);
    }
    longest
}

extern "C" fn sieve(most: u64) -> u64 {
    let composite = unsafe { &mut (&mut *COMPOSITE.0.get())[..most as usize] };
    composite.fill(false);
    let mut count = 0;
    for number in 2..most as usize {
        if !composite[number] {
            count += 1;
            let mut multiple = number * number;
            while multiple < most as usize {
                composite[multiple] = true;
                multiple += number;
            }
        }
    }
    count
}

#[inline(never)]
extern "C" fn fibonacci(number: u64) -> u64 {
    if number < 2 { number } else { fibonacci(black_box(number - 1)) + fibonacci(black_box(number - 2)) }
}

extern "C" fn sort(count: u64) -> u64 {
    let mut seed = 1u64;
    let all = unsafe { &mut (&mut *UNSORTED.0.get())[..count as usize] };
    for one in all.iter_mut() {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *one = seed >> 20;
    }
    all.sort_unstable();
    all[count as usize / 2]
}

/// A loop over instructions with a jump table, as interpreters have.
extern "C" fn interpreter(rounds: u64) -> u64 {
    const PROGRAM: [u8; 16] = [0, 1, 2, 3, 4, 1, 5, 0, 6, 2, 7, 1, 3, 4, 0, 8];
    let (mut stack, mut top, mut value) = ([0u64; 16], 0usize, 1u64);
    for round in 0..rounds {
        match black_box(PROGRAM[(round & 15) as usize]) {
            0 => value = value.wrapping_add(round),
            1 => value ^= value << 7,
            2 => value = value.wrapping_mul(31),
            3 => stack[top & 15] = value,
            4 => top += 1,
            5 => value = value.wrapping_sub(stack[(top + 3) & 15]),
            6 => value = value.rotate_left(11),
            7 => top = top.wrapping_sub(1),
            _ => value |= 1,
        }
    }
    value
}

#[inline(never)]
extern "C" fn increment(value: u64) -> u64 {
    value + 1
}
#[inline(never)]
extern "C" fn double(value: u64) -> u64 {
    value.wrapping_mul(2)
}
#[inline(never)]
extern "C" fn halve(value: u64) -> u64 {
    value / 2
}

extern "C" fn pointers(rounds: u64) -> u64 {
    let table: [extern "C" fn(u64) -> u64; 3] = [increment, double, halve];
    let mut value = 1;
    for round in 0..rounds {
        value = black_box(table[(round % 3) as usize])(value);
    }
    value
}

extern "C" fn floats(rounds: u64) -> u64 {
    let (mut x, mut sum) = (0.5f64, 0.0f64);
    for _ in 0..rounds {
        x = 3.7 * x * (1.0 - x);
        if x > 0.6 {
            sum += x;
        }
    }
    sum.to_bits()
}

extern "C" fn format_numbers(count: u64) -> u64 {
    let mut total = 0;
    let mut text = [0u8; 64];
    for number in 0..count {
        let format = c"%ld %x %s";
        total += unsafe {
            libc::snprintf(
                text.as_mut_ptr().cast(),
                64,
                format.as_ptr(),
                number * 977,
                number as u32,
                c"text".as_ptr(),
            )
        };
    }
    total as u64
}
