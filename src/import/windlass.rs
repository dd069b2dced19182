//! windlass' table: `checkpoints(id, thread_id, state, saved_at)`, a row for each step.
//!
//! | ours | the row's |
//! |---|---|
//! | thread | `thread_id` |
//! | id, order | its number, in decimal |
//! | parent | the row before it in its thread |
//! | state | `state`: text is JSON, a blob is bytes |
//! | saved_at | `saved_at`, seconds from 1970; one that is no time is left behind |

use std::time::{Duration, SystemTime};

use rusqlite::types::ValueRef;

use super::open::Image;
use super::tables::{Rows, row, size};
use super::value::{bytes, name, shown, text};
use crate::batch::nanos_of;
use crate::carry::{Followed, Row, Source, Tally};
use crate::checkpoint::{Attachment, CheckpointId, Metadata, StateBytes, TypeTag, check_thread};
use crate::error::{Error, Result};

pub(super) struct Windlass<'a> {
    image: &'a Image,
    rows: Rows,
}

impl<'a> Windlass<'a> {
    pub fn new(image: &'a Image) -> Self {
        Windlass { image, rows: Rows::default() }
    }
}

impl Source for Windlass<'_> {
    fn size(&mut self) -> Result<u64> {
        size(self.image)
    }

    fn threads(&mut self, tally: &mut Tally<'_>) -> Result<Vec<String>> {
        let sql = "SELECT rowid, thread_id FROM checkpoints NOT INDEXED ORDER BY rowid";
        self.rows = Rows::scan(self.image, sql, |number, values| {
            let thread = text("thread_id", values[0]).and_then(|thread| check_thread(thread).map(|()| thread.to_owned()));
            thread.map_err(|error| tally.refuse(Some(&shown(values[0])), Some(&number.to_string()), &error)).ok()
        })?;
        Ok(self.rows.threads.clone())
    }

    fn max_history(&mut self, _: Option<&str>) -> Result<Option<usize>> {
        super::no_number()
    }

    fn list(&mut self, thread: &str, _: &mut Tally<'_>) -> Result<Vec<CheckpointId>> {
        self.rows.of(thread).iter().map(|number| CheckpointId::new(number.to_string())).collect()
    }

    fn load(&mut self, thread: &str, id: &CheckpointId, tally: &mut Tally<'_>) -> Result<Option<Row>> {
        let number = id.as_str().parse().map_err(|_| Error::invalid(format!("{id} is no number of a row")))?;
        let read = |values: &[ValueRef<'_>]| -> Result<(TypeTag, StateBytes, Result<SystemTime>)> {
            let tag = if matches!(values[0], ValueRef::Blob(_)) { TypeTag::BYTES } else { TypeTag::JSON };
            Ok((tag, bytes("state", values[0])?.to_vec().into(), time(values[1])))
        };
        match row(self.image, "SELECT state, saved_at FROM checkpoints WHERE rowid = ?1", number, read)? {
            Ok((tag, state, saved_at)) => {
                let saved_at = saved_at.map_err(|error| tally.leave_part(thread, id.as_str(), "saved_at", &error)).ok();
                Ok(Some(Row { tag, state, metadata: Metadata::default(), saved_at, parent: Followed::Previous }))
            }
            Err(error) => {
                tally.refuse(Some(thread), Some(id.as_str()), &error);
                Ok(None)
            }
        }
    }

    fn attachments(&mut self, _: &str, _: &CheckpointId, _: &mut Tally<'_>) -> Result<Vec<Attachment>> {
        Ok(Vec::new())
    }

    fn awaited(&mut self, _: &str, _: &mut Tally<'_>) -> Result<Vec<CheckpointId>> {
        Ok(Vec::new())
    }
}

/// Seconds from 1970 as a time, to the nanosecond that is nearest. Errors: `InvalidInput`.
fn time(value: ValueRef<'_>) -> Result<SystemTime> {
    let distance = match value {
        ValueRef::Integer(seconds) => Ok(Duration::from_secs(seconds.unsigned_abs())),
        ValueRef::Real(seconds) => Duration::try_from_secs_f64(seconds.abs()).map_err(|error| Error::invalid(error.to_string())),
        other => Err(Error::invalid(format!("it is {}, not a number of seconds", name(other)))),
    }?;
    let is_before = matches!(value, ValueRef::Integer(..0)) || matches!(value, ValueRef::Real(seconds) if seconds < 0.0);
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if is_before { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
    let time = time.ok_or_else(|| Error::invalid("it is no time that can be told"))?;
    nanos_of(time).map(|_| time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_times_where_they_can_be() {
        let of = |value| time(value).ok().map(|time| nanos_of(time).unwrap());
        // What the number is, which is a little less than what it is printed as.
        assert_eq!(of(ValueRef::Real(1_795_955_344.198_777_2)), Some(1_795_955_344_198_777_199));
        assert_eq!(of(ValueRef::Integer(7)), Some(7_000_000_000));
        assert_eq!((of(ValueRef::Integer(-7)), of(ValueRef::Real(-1.5))), (Some(-7_000_000_000), Some(-1_500_000_000)));
        assert_eq!(of(ValueRef::Real(0.0)), Some(0));
        for value in
            [ValueRef::Real(f64::INFINITY), ValueRef::Real(1e300), ValueRef::Real(1e11), ValueRef::Integer(i64::MIN), ValueRef::Null]
        {
            assert_eq!(of(value), None, "{value:?}");
        }
        assert!(of(ValueRef::Text(b"7")).is_none() && of(ValueRef::Real(f64::NAN)).is_none());
    }
}
