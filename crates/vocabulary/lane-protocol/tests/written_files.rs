//! What was written to mapped files, as others come to know of it.

use lane_protocol::{Written, WrittenFiles, WrittenPart, mark_of};

fn empty() -> Box<WrittenFiles> {
    Box::new(WrittenFiles::new())
}

fn part(number: u64) -> WrittenPart {
    WrittenPart { lane: 3, identity: [1, number], size: 4 * number, from: number, bytes: 7 }
}

#[test]
fn only_marked_files_are_marked() {
    let files = empty();
    files.mark([1, 2]);
    assert!(files.is_marked(mark_of([1, 2])));
    assert!(!files.is_marked(mark_of([2, 1])));
}

#[test]
fn files_are_hardly_ever_taken_for_written_ones() {
    let files = empty();
    for number in 0..300 {
        files.add(&part(number));
    }
    assert!((0..300).all(|number| files.is_written([1, number])));
    assert!((300..10_000).filter(|&number| files.is_written([1, number])).count() <= 1);
}

#[test]
fn parts_are_read_until_too_many_came_behind() {
    let files = empty();
    assert_eq!(files.count(), 0);
    for number in 0..1500 {
        files.add(&part(number));
    }
    assert_eq!(files.count(), 1500);
    assert_eq!(files.part(0), Written::Gone);
    assert_eq!(files.part(475), Written::Gone);
    assert_eq!(files.part(476), Written::Part(part(476)));
    assert_eq!(files.part(1499), Written::Part(part(1499)));
}
