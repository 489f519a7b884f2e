//! Sizes for people.

/// `12 bytes`, `3.4 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        let plural = if bytes == 1 { "" } else { "s" };
        return format!("{bytes} byte{plural}");
    }
    let mut power = 1;
    while power < UNITS.len() && bytes >> (10 * (power + 1)) > 0 {
        power += 1;
    }
    let tenths = (u128::from(bytes) * 10) >> (10 * power);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[power - 1])
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_short() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1_600_000, "1.5 MiB"),
            (5 << 30, "5.0 GiB"),
            (3 << 50, "3072.0 TiB"),
        ];
        for (number, expected) in cases {
            assert_eq!(expected, bytes(number));
        }
    }
}
