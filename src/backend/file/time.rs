//! A time as a person reads it, RFC 3339 in UTC, exact to the nanosecond. Pure.

use std::time::SystemTime;

use jiff::Timestamp;

use crate::batch::{nanos_of, time_of};
use crate::error::{Error, Result};

/// Errors: `InvalidInput` outside the years 1677 to 2262.
pub(super) fn to_text(time: SystemTime) -> Result<String> {
    let nanos = i128::from(nanos_of(time)?);
    let stamp = Timestamp::from_nanosecond(nanos).map_err(|error| Error::invalid(format!("no time: {error}")))?;
    Ok(stamp.to_string())
}

/// The time of [`to_text`]; None for any other text.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let stamp: Timestamp = text.parse().ok()?;
    let nanos = i64::try_from(stamp.as_nanosecond()).ok()?;
    // A time has one text.
    Some(time_of(nanos)).filter(|time| to_text(*time).is_ok_and(|again| again == text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_the_calendar_says() {
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1, "1970-01-01T00:00:00.000000001Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (1_700_000_000_123_000_000, "2023-11-14T22:13:20.123Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (4_107_542_399_500_000_000, "2100-02-28T23:59:59.5Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
        ] {
            assert_eq!(to_text(time_of(nanos)).unwrap(), text);
            assert_eq!(parse(text), Some(time_of(nanos)));
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in ["", "Z", "1970-01-01", "1970-01-01T00:00:00", "1970-02-30T00:00:00Z", "1970-01-01T24:00:00Z", "1970-01-01T00:00:00.0Z"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["1970-01-01 00:00:00Z", "é970-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "1970-01-01T00:00:00.1234567890Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
