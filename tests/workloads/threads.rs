//! Threads by Rust's standard library. Lines with ~ tell what chance decided.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::Duration;

fn main() {
    channels();
    scoped();
    barriers();
    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    let other = pair.clone();
    let pong = thread::spawn(move || ping_pong(&other, 1));
    ping_pong(&pair, 0);
    pong.join().expect("nobody panics");

    static ONCE: OnceLock<usize> = OnceLock::new();
    let first = thread::spawn(|| *ONCE.get_or_init(|| 1));
    let value = *ONCE.get_or_init(|| 1);
    println!("once {} {value}", first.join().expect("nobody panics"));
    let parked = thread::spawn(|| thread::park_timeout(Duration::from_secs(10)));
    parked.thread().unpark();
    println!("parked {}", parked.join().is_ok());
    let panicked = thread::spawn(|| panic!("on purpose")).join();
    println!("panicked {}", panicked.is_err());
    std::process::exit(4);
}

fn channels() {
    let (sender, receiver) = mpsc::channel();
    let mut order = 2166136261u32;
    for number in 0..4u32 {
        let sender = sender.clone();
        thread::spawn(move || {
            for i in 0..2000u64 {
                sender.send((number, i)).expect("the receiver listens");
            }
        });
    }
    drop(sender);
    let mut sum = 0;
    for (number, value) in receiver {
        order = (order ^ number).wrapping_mul(16777619);
        sum += value;
    }
    println!("received {sum}\n~ in the order {order:08x}");
}

fn scoped() {
    let words: Vec<String> = (0..20_000).map(|i| format!("word{}", i * 7 % 1000)).collect();
    let counts = Mutex::new(HashMap::new());
    thread::scope(|scope| {
        for part in words.chunks(5000) {
            let counts = &counts;
            scope.spawn(move || {
                for word in part {
                    *counts.lock().expect("nobody panics").entry(word.as_str()).or_insert(0) += 1;
                }
            });
        }
    });
    let counts = counts.into_inner().expect("nobody panics");
    println!("{} words, {} of word7", counts.len(), counts["word7"]);
    println!("~ first of the map: {:?}", counts.iter().next());
}

fn barriers() {
    let barrier = Arc::new(Barrier::new(3));
    let leaders = Arc::new(AtomicUsize::new(0));
    let names = Arc::new(RwLock::new(Vec::new()));
    let workers: Vec<_> = (0..3)
        .map(|number| {
            let (barrier, leaders, names) = (barrier.clone(), leaders.clone(), names.clone());
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || {
                    for _ in 0..200 {
                        if barrier.wait().is_leader() {
                            leaders.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    let name = thread::current().name().unwrap_or_default().to_owned();
                    names.write().expect("nobody panics").push(name);
                })
                .expect("threads can be made")
        })
        .collect();
    for worker in workers {
        worker.join().expect("nobody panics");
    }
    let mut names = names.read().expect("nobody panics").clone();
    println!("~ ended in the order {names:?}");
    names.sort();
    println!("{} leaders, {names:?}", leaders.load(Ordering::Relaxed));
}

fn ping_pong(pair: &(Mutex<u32>, Condvar), own: u32) {
    for _ in 0..2000 {
        let mut turn = pair.0.lock().expect("nobody panics");
        while *turn % 2 != own {
            turn = pair.1.wait(turn).expect("nobody panics");
        }
        *turn += 1;
        pair.1.notify_one();
    }
}
