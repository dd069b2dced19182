//! Numbers of JSON by their value, whatever they look like and however large: 1, 1.0 and 10e-1 are one.

/// A number, read from its text: 0.DIGITS times ten to the power of `exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal<'a> {
    negative: bool,
    /// From the first digit that is not 0 to the last, perhaps with the point among them; empty for 0.
    digits: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// The number that a JSON token is; `None` where its exponent is beyond 64 bits, or it is no number.
    pub fn of(token: &'a str) -> Option<Self> {
        let (negative, number) = token.strip_prefix('-').map_or((false, token), |rest| (true, rest));
        if !number.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let digits = mantissa.trim_start_matches(['0', '.']);
        if digits.is_empty() {
            return Some(Decimal { negative: false, digits, exponent: 0 });
        }
        let before_point = mantissa.find('.').unwrap_or(mantissa.len());
        let zeros = mantissa[..mantissa.len() - digits.len()].bytes().filter(|byte| *byte == b'0').count();
        let exponent = power.parse::<i64>().ok()?.checked_add(before_point as i64 - zeros as i64)?;
        Some(Decimal { negative, digits: digits.trim_end_matches(['0', '.']), exponent })
    }

    /// Whether a 64-bit float holds it so that its shortest text is this number again.
    pub fn survives_f64(&self, value: f64) -> bool {
        // Any number of 15 digits does, in the range of normal floats.
        const SAFE_DIGITS: usize = 15;
        (self.digits.len() <= SAFE_DIGITS && self.exponent.abs() < 290) || Decimal::of(&format!("{value:e}")).is_some_and(|of| of == *self)
    }

    fn each_digit(&self) -> impl Iterator<Item = u8> {
        self.digits.bytes().filter(|byte| *byte != b'.')
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.negative, self.exponent) == (other.negative, other.exponent) && self.each_digit().eq(other.each_digit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(one: &str, other: &str) -> bool {
        Decimal::of(one).zip(Decimal::of(other)).is_some_and(|(one, other)| one == other)
    }

    #[test]
    fn numbers_are_their_values() {
        for (one, other) in [
            ("1", "1.0"),
            ("1", "10e-1"),
            ("100", "1E+2"),
            ("0", "-0.000e99999999999999999999"),
            ("0.05", "5e-2"),
            ("10.50", "1.05e1"),
            ("18446744073709551616", "18446744073709551616.0"),
            ("-7", "-70e-1"),
        ] {
            assert!(same(one, other) && same(other, one), "{one} is {other}");
        }
        for (one, other) in [
            ("1", "-1"),
            ("1", "10"),
            ("18446744073709551616", "18446744073709551617"),
            ("0.1", "0.10000000000000001"),
            ("5", "0.5"),
            ("105", "15"),
            ("1e99999999999999999999", "1e99999999999999999999"),
            ("null", "null"),
        ] {
            assert!(!same(one, other), "{one} is not {other}");
        }
    }

    proptest! {
        #[test]
        fn a_number_is_the_same_with_its_point_elsewhere(number in 1..u64::MAX, shift in -30..30_i32, zeros in 0..5_usize) {
            let one = format!("{number}e{shift}");
            let other = format!("{number}{}.0e{}", "0".repeat(zeros), shift - zeros as i32);
            prop_assert!(same(&one, &other));
            let smaller = format!("{}e{shift}", number - 1);
            prop_assert!(!same(&one, &smaller));
        }

        #[test]
        fn a_float_survives_itself_alone(value in any::<f64>().prop_filter("with digits", |value| value.is_finite() && *value != 0.0)) {
            let text = format!("{value:e}");
            prop_assert!(Decimal::of(&text).unwrap().survives_f64(value));
            let longer = text.replacen('e', if text.contains('.') { "00000000000000000001e" } else { ".0000000000000000000001e" }, 1);
            prop_assert!(!Decimal::of(&longer).unwrap().survives_f64(value));
        }
    }
}
