//! Finds what JSON cannot hold in a value that is about to be serialised: NaN and infinity.
//!
//! `serde_json` writes them as `null` without a word. This serialiser writes nothing; it walks the
//! value and answers the path of the first such number. It keeps no state between calls.

use std::fmt;

use serde::Serialize;
use serde::ser::{self, Serializer};

use crate::error::{Error, Result};

/// Errors: `InvalidInput` naming the path of the first NaN or infinity (`$.scores[412]`).
pub(crate) fn check<S: Serialize + ?Sized>(value: &S) -> Result<()> {
    value.serialize(Walk).map_err(|found| match found.what {
        Some(number) => Error::invalid(format!("{number} at ${} cannot be written as JSON", found.steps())),
        None => Error::invalid(format!("the value cannot be serialised at ${}: {}", found.steps(), found.message)),
    })
}

/// What was found, with its path collected from the inside out.
#[derive(Debug)]
struct Found {
    what: Option<f64>,
    message: String,
    path: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Index(usize),
    Key(String),
}

impl Found {
    fn within(mut self: Box<Self>, step: Step) -> Box<Self> {
        self.path.push(step);
        self
    }

    fn steps(&self) -> String {
        self.path
            .iter()
            .rev()
            .map(|step| match step {
                Step::Index(index) => format!("[{index}]"),
                Step::Key(key) => format!(".{key}"),
            })
            .collect()
    }
}

/// Boxed, so that the walk's results stay one word.
#[derive(Debug)]
struct Stop(Box<Found>);

impl std::ops::Deref for Stop {
    type Target = Found;
    fn deref(&self) -> &Found {
        &self.0
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Stop {}

impl ser::Error for Stop {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Stop(Box::new(Found { what: None, message: message.to_string(), path: Vec::new() }))
    }
}

type Walked = std::result::Result<(), Stop>;

struct Walk;

/// The parts of a sequence, map or struct, counted or named.
struct Parts {
    index: usize,
    key: String,
    variant: Option<&'static str>,
}

impl Parts {
    fn of(variant: Option<&'static str>) -> Self {
        Parts { index: 0, key: String::new(), variant }
    }

    fn enter<T: Serialize + ?Sized>(&self, value: &T, step: impl FnOnce() -> Step) -> Walked {
        value.serialize(Walk).map_err(|stop| {
            let inside = stop.0.within(step());
            Stop(match self.variant {
                Some(variant) => inside.within(Step::Key(variant.to_owned())),
                None => inside,
            })
        })
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Walked {
        let index = self.index;
        self.index += 1;
        self.enter(value, || Step::Index(index))
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Walked {
        self.enter(value, || Step::Key(key.to_owned()))
    }
}

fn number(value: f64) -> Walked {
    if value.is_finite() {
        return Ok(());
    }
    Err(Stop(Box::new(Found { what: Some(value), message: String::new(), path: Vec::new() })))
}

macro_rules! pass {
    ($($method:ident($($type:ty),*)),* $(,)?) => { $(fn $method(self $(, _: $type)*) -> Walked { Ok(()) })* };
}

impl Serializer for Walk {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Parts;
    type SerializeTuple = Parts;
    type SerializeTupleStruct = Parts;
    type SerializeTupleVariant = Parts;
    type SerializeMap = Parts;
    type SerializeStruct = Parts;
    type SerializeStructVariant = Parts;

    pass! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64), serialize_i128(i128),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_u128(u128), serialize_char(char),
        serialize_str(&str), serialize_bytes(&[u8]), serialize_none(), serialize_unit(), serialize_unit_struct(&'static str),
        serialize_unit_variant(&'static str, u32, &'static str),
    }

    fn serialize_f32(self, value: f32) -> Walked {
        number(f64::from(value))
    }
    fn serialize_f64(self, value: f64) -> Walked {
        number(value)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Walked {
        value.serialize(self)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Walked {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: &'static str, _: u32, variant: &'static str, value: &T) -> Walked {
        Parts::of(None).field(variant, value)
    }
    fn serialize_seq(self, _: Option<usize>) -> std::result::Result<Parts, Stop> {
        Ok(Parts::of(None))
    }
    fn serialize_tuple(self, _: usize) -> std::result::Result<Parts, Stop> {
        Ok(Parts::of(None))
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> std::result::Result<Parts, Stop> {
        Ok(Parts::of(None))
    }
    fn serialize_tuple_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> std::result::Result<Parts, Stop> {
        Ok(Parts::of(Some(variant)))
    }
    fn serialize_map(self, _: Option<usize>) -> std::result::Result<Parts, Stop> {
        Ok(Parts::of(None))
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> std::result::Result<Parts, Stop> {
        Ok(Parts::of(None))
    }
    fn serialize_struct_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> std::result::Result<Parts, Stop> {
        Ok(Parts::of(Some(variant)))
    }
}

macro_rules! elements {
    ($($part:ident::$method:ident),* $(,)?) => { $(impl ser::$part for Parts {
        type Ok = ();
        type Error = Stop;
        fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Walked {
            self.element(value)
        }
        fn end(self) -> Walked {
            Ok(())
        }
    })* };
}

macro_rules! fields {
    ($($part:ident),* $(,)?) => { $(impl ser::$part for Parts {
        type Ok = ();
        type Error = Stop;
        fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Walked {
            self.field(key, value)
        }
        fn end(self) -> Walked {
            Ok(())
        }
    })* };
}

elements! {
    SerializeSeq::serialize_element, SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field, SerializeTupleVariant::serialize_field,
}
fields! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Parts {
    type Ok = ();
    type Error = Stop;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Walked {
        let text = serde_json::to_string(key).map_err(ser::Error::custom)?;
        self.key = text.trim_matches('"').to_owned();
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Walked {
        let key = std::mem::take(&mut self.key);
        self.enter(value, || Step::Key(key))
    }
    fn end(self) -> Walked {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Serialize)]
    enum Shape {
        Line(f64),
        Box { side: f64 },
        Pair(f64, f32),
    }

    fn path<S: Serialize>(value: &S) -> String {
        check(value).unwrap_err().to_string()
    }

    #[test]
    fn the_path_of_a_number_json_cannot_hold_is_named() {
        let mut scores = vec![1.0; 1000];
        scores[412] = f64::NAN;
        assert!(path(&BTreeMap::from([("scores", scores)])).contains("NaN at $.scores[412]"));
        assert!(path(&f64::INFINITY).contains("inf at $ "));
        assert!(path(&Shape::Line(f64::NAN)).contains("$.Line "));
        assert!(path(&Shape::Box { side: f64::NEG_INFINITY }).contains("-inf at $.Box.side "));
        assert!(path(&Shape::Pair(0.0, f32::NAN)).contains("$.Pair[1] "));
        assert!(path(&(1, Some(f64::NAN))).contains("$[1] "));
    }

    #[test]
    fn values_json_can_hold_pass() {
        assert!(check(&(1u8, "x", Some(1.5), (), [f64::MAX], BTreeMap::from([(1, 2)]))).is_ok());
    }
}
