use std::collections::HashMap;

#[derive(Debug)]
struct Shelf {
    boxes: Vec<u32>,
    free: u32,
}

struct Store {
    shelves: HashMap<String, Shelf>,
}

impl Store {
    fn put(&mut self, name: &str, weight: u32) {
        let shelf = self
            .shelves
            .entry(name.to_string())
            .or_insert(Shelf { boxes: Vec::new(), free: 10 });
        if weight <= shelf.free {
            shelf.boxes.push(weight);
            shelf.free -= weight;
        }
    }

    fn take(&mut self, name: &str) -> Option<u32> {
        let shelf = self.shelves.get_mut(name)?;
        let weight = shelf.boxes.pop()?;
        shelf.free += weight.max(4);
        Some(weight)
    }
}

fn check(shelf: &Shelf) {
    let used: u32 = shelf.boxes.iter().sum();
    assert_eq!(shelf.free + used, 10);
}

fn main() {
    let mut store = Store { shelves: HashMap::new() };
    for weight in [2, 5, 3] {
        store.put("tea", weight);
    }
    store.put("salt", 9);
    store.take("salt");
    store.take("tea");
    store.put("tea", 1);
    store.put("salt", 6);
    for name in ["salt", "tea"] {
        check(&store.shelves[name]);
    }
}
