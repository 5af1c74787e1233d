// Trees and rings of the standard library, and values that are shared.
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

struct Stock {
    names: BTreeMap<u32, String>,
    many: BTreeMap<u16, u64>,
    codes: BTreeSet<i8>,
    none: BTreeMap<u8, u8>,
    waiting: VecDeque<u32>,
    words: HashMap<String, u8>,
}

struct Shared {
    pair: Rc<(u32, String)>,
    number: Arc<u64>,
    text: Rc<str>,
    list: Arc<[u16]>,
    maybe: [Option<Rc<u8>>; 2],
}

#[inline(never)]
fn count(stock: &Stock, shared: &Shared) -> usize {
    stock.names.len() + shared.list.len()
}

fn main() {
    let mut waiting: VecDeque<u32> = (0..6).collect();
    for number in 0..4 {
        waiting.pop_front();
        waiting.push_back(100 + number);
    }
    let stock = Stock {
        names: BTreeMap::from([(3, "three".into()), (1, "one".into())]),
        many: (0..500).map(|number| (number * 7 % 500, u64::from(number))).collect(),
        codes: BTreeSet::from([4, -1]),
        none: BTreeMap::new(),
        waiting,
        words: HashMap::from([("hat".to_owned(), 1)]),
    };
    let shared = Shared {
        pair: Rc::new((7, "seven".into())),
        number: Arc::new(9),
        text: "abc".into(),
        list: Arc::from([1, 2, 3]),
        maybe: [None, Some(Rc::new(5))],
    };
    assert!(count(&stock, &shared) == 5 && stock.many.len() + stock.codes.len() == 502);
    assert!(stock.none.is_empty() && stock.waiting.len() + stock.words.len() == 7);
    assert!(shared.pair.0 as u64 + *shared.number == 16 && shared.text.len() == 3 && shared.maybe[0].is_none());
}
