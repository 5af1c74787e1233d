// Tables of the standard library.
use std::collections::{HashMap, HashSet};

struct Stock {
    prices: HashMap<u32, f64>,
    codes: HashSet<u16>,
    none: HashMap<u8, u8>,
}

#[inline(never)]
fn worth(stock: &Stock) -> f64 {
    stock.prices.values().sum::<f64>() + stock.none.len() as f64
}

fn main() {
    let prices = HashMap::from([(4, 2.5)]);
    let codes = HashSet::from([700]);
    let stock = Stock { prices, codes, none: HashMap::new() };
    assert!(worth(&stock) == 2.5 && stock.codes.len() == 1);
}
