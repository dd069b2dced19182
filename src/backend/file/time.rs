//! A time as a person reads it, RFC 3339 in UTC, exact to the nanosecond. Pure.

use std::time::SystemTime;

use crate::batch::{nanos_of, time_of};
use crate::error::Result;

const DAY: i64 = 86_400;
const NANOS: i64 = 1_000_000_000;

/// Errors: `InvalidInput` outside the years 1677 to 2262.
pub(super) fn to_text(time: SystemTime) -> Result<String> {
    let nanos = nanos_of(time)?;
    let (seconds, nanos) = (nanos.div_euclid(NANOS), nanos.rem_euclid(NANOS));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let fraction = match nanos {
        0 => String::new(),
        nanos => format!(".{}", format!("{nanos:09}").trim_end_matches('0')),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
}

/// The time of [`to_text`]; None for any other text.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let days = days_of(number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let seconds = days * DAY + number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    let fraction = text.get(19..)?.strip_suffix('Z')?.trim_start_matches('.');
    let nanos = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse::<i64>().ok()? };
    let nanos = i64::try_from(i128::from(seconds) * i128::from(NANOS) + i128::from(nanos)).ok()?;
    let time = (nanos > i64::MIN).then(|| time_of(nanos))?;
    // Whatever else was let pass above: a time has one text.
    (to_text(time).ok()? == text).then_some(time)
}

/// Year, month and day of a day counted from 1970; the calendar counts from the 1st of March of year 0 on,
/// in eras of 400 years, so that leap days stand at the end.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    era * 146_097 + year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 + day - 1 - 719_468
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
            (i64::MIN + 1, "1677-09-21T00:12:43.145224193Z"),
        ] {
            assert_eq!(to_text(time_of(nanos)).unwrap(), text);
            assert_eq!(parse(text), Some(time_of(nanos)));
        }
    }

    #[test]
    fn every_day_comes_back() {
        for day in -106_000..106_000 {
            let (year, month, of_month) = date_of(day);
            assert_eq!(days_of(year, month, of_month), day, "{year}-{month}-{of_month}");
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
