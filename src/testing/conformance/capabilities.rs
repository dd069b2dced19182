//! What a place does not have it answers with `Unsupported`; and a pointer to a place is a place.

use std::sync::Arc;
use std::time::Duration;

use super::probe::{good, refused};
use super::{Make, Setup};
use crate::batch::{ExpectedHead, OnExisting, PutOptions};
use crate::checkpoint::TypeTag;
use crate::checkpointer::{Checkpointer, CheckpointerExt};
use crate::error::{ErrorKind, Result};
use crate::query::{FindQuery, ThreadQuery, VacuumQuery};

cases![what_is_missing_is_unsupported, a_pointer_to_a_place_is_a_place];

#[track_caller]
fn missing<T>(had: bool, what: &str, result: Result<T>) {
    if !had {
        refused(ErrorKind::Unsupported, what, result);
    }
}

/// Every call behind a capability that is false is `Unsupported` and does nothing (forks and the like: `branches`).
pub fn what_is_missing_is_unsupported(make: Make<'_>) {
    let place = make(Setup::default());
    let own = place.put_text("t", "1");
    place.put_text("t", "2");
    let before = place.picture(&["t", "u"]);
    let has = place.capabilities();
    missing(has.list_threads, "list_threads", place.list_threads(&ThreadQuery::default()));
    missing(has.list_threads, "threads", place.threads());
    let by_text = FindQuery { text: Some("1".to_owned()), ..FindQuery::default() };
    let by_metadata = FindQuery { metadata: vec![("a".to_owned(), serde_json::Value::Null)], ..FindQuery::default() };
    missing(has.search, "find by text", place.find(&by_text));
    missing(has.metadata_query, "find by metadata", place.find(&by_metadata));
    let by_count = VacuumQuery { keep: Some(1), dry_run: true, ..VacuumQuery::default() };
    let by_age = VacuumQuery { older_than: Some(Duration::ZERO), dry_run: true, ..VacuumQuery::default() };
    let by_idle_time = VacuumQuery { idle: Some(Duration::ZERO), dry_run: true, ..VacuumQuery::default() };
    missing(has.vacuum, "vacuum", place.vacuum(&by_count));
    missing(has.vacuum && has.ttl, "vacuum by age", place.vacuum(&by_age));
    missing(has.vacuum && has.ttl, "vacuum by idle time", place.vacuum(&by_idle_time));
    missing(has.attachments, "attach", place.attach("t", &own, "k", TypeTag::BYTES, b"1", OnExisting::Keep));
    missing(has.attachments, "attachments", place.attachments("t", &own));
    if !has.compare_and_put {
        for head in [ExpectedHead::Empty, ExpectedHead::Id(own)] {
            let expecting = PutOptions::default().expected_head(head);
            missing(false, "expected_head", place.put_bytes("u", TypeTag::JSON, b"1", expecting));
        }
    }
    assert_eq!(place.picture(&["t", "u"]), before);
}

/// A borrow, a box and an arc of a place forward the calls, typed ones too.
pub fn a_pointer_to_a_place_is_a_place(make: Make<'_>) {
    let place = make(Setup::default());
    let borrowed: &dyn Checkpointer = &*place;
    step_through(&borrowed, 1);
    step_through(&Box::new(borrowed), 2);
    step_through(&Arc::new(borrowed), 3);
    step_through(borrowed, 4);
    let boxed: Box<dyn Checkpointer + '_> = Box::new(borrowed);
    step_through(&*boxed, 5);
    let shared: Arc<dyn Checkpointer + '_> = Arc::new(boxed);
    step_through(&shared, 6);
    assert_eq!(place.states("t").concat(), "654321");
    place.audit("t");
}

fn step_through<C: Checkpointer + ?Sized>(pointer: &C, step: usize) {
    let own = good("put", pointer.put("t", &step));
    assert_eq!(good("get", pointer.get::<usize>("t")), Some(step));
    assert_eq!(good("head", pointer.head("t")).map(|head| head.id), Some(own));
    assert_eq!(good("history", pointer.history::<usize>("t", None)).len(), step);
}
