//! The highest bid is read, compared and written by several threads, each step atomic by itself.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;

fn main() {
    let highest = Arc::new(AtomicU64::new(0));
    let bidders: Vec<_> = (1..=4u64)
        .map(|bidder| {
            let highest = Arc::clone(&highest);
            thread::spawn(move || {
                for bid in 1..=20 {
                    let amount = bid * 4 + bidder;
                    if amount > highest.load(Ordering::SeqCst) {
                        highest.store(amount, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for bidder in bidders {
        bidder.join().expect("it does not panic");
    }
    if highest.load(Ordering::SeqCst) != 84 {
        eprintln!("caught: the highest bid was lost");
        std::process::exit(1);
    }
}
