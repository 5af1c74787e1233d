// Values of many kinds, as `print` and `calls` show them.

enum Shape {
    Circle { radius: f64 },
    Square(f32, u8),
    Named(String),
    Empty,
}

struct Point {
    x: i32,
    y: i32,
}

#[inline(never)]
fn weigh(shapes: &[Shape], label: &str, bonus: Option<u32>, next: Option<&Point>) -> usize {
    shapes.len() + label.len() + bonus.unwrap_or(0) as usize + next.map_or(0, |point| point.x as usize)
}

fn main() {
    let first = Shape::Circle { radius: 1.5 };
    let second = Shape::Square(2.5, 3);
    let third = Shape::Named("hat".to_string());
    let nothing = Shape::Empty;
    let points: Vec<Point> = (0..3).map(|x| Point { x, y: x * x }).collect();
    let none: Vec<u64> = Vec::new();
    let long: Vec<u64> = (0..1000).collect();
    let (part, text) = (&points[1..], "g\u{e9}nial".to_string());
    let failed: Result<u8, String> = Err("no".to_string());
    let maybe = (Some(7u16), None::<u16>, Some(&points[2]), None::<&Point>);
    let all = [first, second, third, nothing];
    let sum = weigh(&all, &text[..3], Some(4), maybe.2);
    println!("{sum} {} {} {:?} {}", long.len(), none.len() + part.len(), failed, maybe.0.unwrap_or(0)); // MARK
    for shape in all {
        match shape {
            Shape::Circle { radius } => println!("{radius}"),
            Shape::Square(side, edges) => println!("{side} {edges}"),
            Shape::Named(name) => println!("{name} {}", points[0].y),
            Shape::Empty => println!("{text} {:?} {}", maybe.1, maybe.3.is_none()),
        }
    }
}
