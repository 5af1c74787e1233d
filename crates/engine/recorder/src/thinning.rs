//! Which checkpoints can be spared.

/// Of ages, newest last: the one that can be spared best. Neither the oldest nor the
/// newest.
pub fn densest(ages_ns: &[u64]) -> usize {
    let last = ages_ns.len().saturating_sub(1);
    (1..last)
        .min_by(|&one, &other| {
            let gap = |index: usize| {
                (ages_ns[index - 1] - ages_ns[index + 1]) as f64 / (ages_ns[index] as f64 + 1.0)
            };
            gap(one).total_cmp(&gap(other))
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_checkpoints_become_sparse_first() {
        // Ages in seconds, the oldest first.
        assert_eq!(densest(&[100, 99, 50, 10, 1]), 1);
        assert_eq!(densest(&[5, 4, 3, 2, 1]), 1);
        assert_eq!(densest(&[2, 1]), 0);
    }
}
