//! Ends by a panic, whose stack is unwound: what is left at its end says nothing.

struct Queue {
    jobs: Vec<String>,
}

impl Queue {
    #[inline(never)]
    fn run(&mut self) -> i64 {
        let mut sum = 0;
        while let Some(job) = self.jobs.pop() {
            sum += job.parse::<i64>().unwrap();
        }
        sum
    }
}

fn main() {
    let mut queue = Queue { jobs: ["1", "x2", "3"].map(String::from).to_vec() };
    println!("{}", queue.run());
}
