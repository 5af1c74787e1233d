//! Numbers of samples.

/// The value below which a part of them is.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        let values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        assert_eq!(
            (median(&values), quantile(&values, 0.999), quantile(&values, 1.0)),
            (500.0, 999.0, 1000.0)
        );
    }
}
