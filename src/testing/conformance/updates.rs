//! Updates: a changed copy of an older checkpoint is the newest, and the older one stays.

use serde_json::{Value, json};

use super::probe::{Seen, good, id, refused};
use super::{Make, Setup};
use crate::batch::{ExpectedHead, PutOptions};
use crate::checkpoint::{Metadata, TypeTag};
use crate::checkpointer::CheckpointerExt;
use crate::error::ErrorKind;

cases![
    an_update_is_a_new_checkpoint_from_an_old_one,
    metadata_is_carried_if_it_is_given,
    an_update_of_what_is_not_there_is_refused,
    an_update_that_another_writer_overtook_is_refused,
    an_update_replaces_no_checkpoint,
    bytes_are_updated_as_they_are,
];

/// The new one is the head, its parent the old one; the old one, the head before and their order stay.
pub fn an_update_is_a_new_checkpoint_from_an_old_one(make: Make<'_>) {
    let place = make(Setup::default());
    let first = place.put_text("t", r#"{"b":1,"a":[1.0]}"#);
    let second = place.put_text("t", r#"{"b":2}"#);
    let before = place.seen("t");
    let third = good("update", place.update("t", &first, |state: &mut Value| state["b"] = json!(3)));
    let after = place.audit("t");
    assert_eq!(after[1..], before[..], "what was there stays");
    assert_eq!((&after[0].id, &after[0].parent, &after[0].tag), (&third, &Some(first), &TypeTag::JSON));
    assert_eq!(after[0].text(), r#"{"b":3,"a":[1.0]}"#);
    let fourth = good("update", place.update("t", &third, |_: &mut Value| ()));
    assert_eq!(place.newest("t").parent, Some(third));
    assert_ne!(fourth, second);
}

/// The old one's metadata tells of the old one; options may carry it on.
pub fn metadata_is_carried_if_it_is_given(make: Make<'_>) {
    let place = make(Setup::default());
    let metadata = good("metadata", Metadata::from_json(r#"{"step": 1}"#));
    let old = place.put_text_with("t", "1", PutOptions::default().metadata(metadata.clone()));
    good("update", place.update("t", &old, |state: &mut u8| *state = 2));
    assert_eq!(place.newest("t").metadata, Metadata::default());
    let options = PutOptions::default().metadata(metadata.clone()).id(id("own"));
    good("update", place.update_with("t", &old, options, |state: &mut u8| *state += 2));
    let newest = place.newest("t");
    assert_eq!((newest.text().as_str(), &newest.metadata, newest.id.as_str()), ("3", &metadata, "own"));
}

/// Neither a thread nor a checkpoint is made, and a state of another type is `Decode`.
pub fn an_update_of_what_is_not_there_is_refused(make: Make<'_>) {
    let place = make(Setup { max_history: Some(2) });
    let gone = place.put_text("t", "1");
    place.put_text("t", "2");
    let text = place.put_text("t", "\"text\"");
    let before = place.picture(&["t", "u"]);
    let change = |state: &mut u8| *state += 1;
    refused(ErrorKind::NotFound, "update in no thread", place.update("u", &text, change));
    refused(ErrorKind::NotFound, "update of a trimmed one", place.update("t", &gone, change));
    refused(ErrorKind::Decode, "update of another type", place.update("t", &text, change));
    refused(ErrorKind::InvalidInput, "update in the thread without a name", place.update("", &text, change));
    assert_eq!(place.picture(&["t", "u"]), before);
}

/// A put, or the old one's deletion, between the reading and the put: nothing is written.
pub fn an_update_that_another_writer_overtook_is_refused(make: Make<'_>) {
    let place = make(Setup::default());
    if !place.capabilities().compare_and_put {
        return;
    }
    let old = place.put_text("t", "1");
    place.put_text("t", "2");
    let overtaken = place.update("t", &old, |state: &mut u8| {
        *state = 9;
        place.put_text("t", "3");
    });
    refused(ErrorKind::Conflict, "an overtaken update", overtaken);
    assert_eq!(place.states("t").concat(), "321");
    let deleted = place.update("t", &old, |_: &mut u8| {
        good("delete_checkpoint", place.delete_checkpoint("t", &old));
    });
    refused(ErrorKind::NotFound, "an update of what is gone", deleted);
    let own = PutOptions::default().expected_head(ExpectedHead::Id(old.clone()));
    let second = place.seen("t").pop().map(|seen: Seen| seen.id).unwrap_or(old);
    refused(ErrorKind::Conflict, "an update with a condition", place.update_with("t", &second, own, |_: &mut u8| ()));
    assert_eq!(place.states("t").concat(), "32");
}

/// An id that the thread has is `Conflict`, the old one's own too: nothing is put in its place.
pub fn an_update_replaces_no_checkpoint(make: Make<'_>) {
    let place = make(Setup::default());
    let (a, b) = (place.put_id("t", "a", "1"), place.put_id("t", "b", "2"));
    for own in [&a, &b] {
        let options = PutOptions::default().id(own.clone());
        refused(ErrorKind::Conflict, "an update of that id", place.update_with("t", &a, options, |state: &mut u8| *state = 9));
    }
    assert_eq!(place.states("t").concat(), "21");
}

/// The new bytes are of the old type, and an error of the change is the answer.
pub fn bytes_are_updated_as_they_are(make: Make<'_>) {
    let place = make(Setup::default());
    let old = good("put", place.put_bytes("t", TypeTag::BYTES, b"\xff1", PutOptions::default()));
    good("update", place.update_bytes("t", &old, PutOptions::default(), |old| Ok([&old.state, &b"2"[..]].concat())));
    let newest = place.newest("t");
    assert_eq!((newest.state.as_deref(), newest.tag), (Some(&b"\xff12"[..]), TypeTag::BYTES));
    let failed = place.update_bytes("t", &old, PutOptions::default(), |_| Err(crate::Error::new(ErrorKind::Decode, "not this one")));
    refused(ErrorKind::Decode, "a change that fails", failed);
    assert_eq!(place.seen("t").len(), 2);
}
