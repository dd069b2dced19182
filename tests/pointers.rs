//! A box, an arc and a borrow of a place forward every call, so that none falls back to a provided
//! body that the place has a better one for.

use std::sync::Arc;

use taffrail::{
    Attachment, Batch, Capabilities, Checkpoint, CheckpointId, CheckpointInfo, Checkpointer, Committed, Error, ErrorKind, FindQuery,
    HistoryQuery, Items, OnExisting, PutOptions, Result, StateBytes, ThreadInfo, ThreadQuery, TypeTag, VacuumQuery, Vacuumed,
};

/// Answers each call with the call's own name.
struct Echo;

fn echo<T>(name: &str) -> Result<T> {
    Err(Error::new(ErrorKind::Io, name))
}

impl Checkpointer for Echo {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.search = true;
        capabilities
    }
    fn commit(&self, _: &Batch<'_>) -> Result<Vec<Committed>> {
        echo("commit")
    }
    fn get_bytes(&self, _: &str) -> Result<Option<Checkpoint<StateBytes>>> {
        echo("get_bytes")
    }
    fn load_bytes(&self, _: &str, _: &CheckpointId) -> Result<Option<Checkpoint<StateBytes>>> {
        echo("load_bytes")
    }
    fn history_bytes(&self, _: &str, _: &HistoryQuery) -> Result<Items<Checkpoint<StateBytes>>> {
        echo("history_bytes")
    }
    fn list(&self, _: &str, _: &HistoryQuery) -> Result<Items<CheckpointInfo>> {
        echo("list")
    }
    fn list_threads(&self, _: &ThreadQuery) -> Result<Items<ThreadInfo>> {
        echo("list_threads")
    }
    fn attachments(&self, _: &str, _: &CheckpointId) -> Result<Vec<Attachment>> {
        echo("attachments")
    }
    fn put_bytes(&self, _: &str, _: TypeTag, _: &[u8], _: PutOptions) -> Result<CheckpointId> {
        echo("put_bytes")
    }
    fn attach(&self, _: &str, _: &CheckpointId, _: &str, _: TypeTag, _: &[u8], _: OnExisting) -> Result<bool> {
        echo("attach")
    }
    fn delete(&self, _: &str) -> Result<bool> {
        echo("delete")
    }
    fn delete_checkpoint(&self, _: &str, _: &CheckpointId) -> Result<bool> {
        echo("delete_checkpoint")
    }
    fn threads(&self) -> Result<Vec<String>> {
        echo("threads")
    }
    fn exists(&self, _: &str) -> Result<bool> {
        echo("exists")
    }
    fn head(&self, _: &str) -> Result<Option<CheckpointInfo>> {
        echo("head")
    }
    fn locate(&self, _: &CheckpointId) -> Result<Vec<String>> {
        echo("locate")
    }
    fn fork(&self, _: &str, _: Option<&CheckpointId>, _: &str) -> Result<CheckpointId> {
        echo("fork")
    }
    fn rename(&self, _: &str, _: &str) -> Result<()> {
        echo("rename")
    }
    fn rollback(&self, _: &str, _: &CheckpointId) -> Result<u64> {
        echo("rollback")
    }
    fn find(&self, _: &FindQuery) -> Result<Items<CheckpointInfo>> {
        echo("find")
    }
    fn vacuum(&self, _: &VacuumQuery) -> Result<Vacuumed> {
        echo("vacuum")
    }
    fn retain(&self, _: Option<&str>, _: Option<usize>) -> Result<()> {
        echo("retain")
    }
    fn max_history(&self, _: Option<&str>) -> Result<Option<usize>> {
        echo("max_history")
    }
}

fn name<T>(result: Result<T>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

fn check<C: Checkpointer + ?Sized>(pointer: &C) {
    let id = CheckpointId::fresh();
    let history = HistoryQuery::default();
    assert!(pointer.capabilities().search);
    assert_eq!(name(pointer.commit(&Batch::new())), "commit");
    assert_eq!(name(pointer.get_bytes("t")), "get_bytes");
    assert_eq!(name(pointer.load_bytes("t", &id)), "load_bytes");
    assert_eq!(name(pointer.history_bytes("t", &history)), "history_bytes");
    assert_eq!(name(pointer.list("t", &history)), "list");
    assert_eq!(name(pointer.list_threads(&ThreadQuery::default())), "list_threads");
    assert_eq!(name(pointer.attachments("t", &id)), "attachments");
    assert_eq!(name(pointer.put_bytes("t", TypeTag::JSON, b"1", PutOptions::default())), "put_bytes");
    assert_eq!(name(pointer.attach("t", &id, "k", TypeTag::JSON, b"1", OnExisting::Keep)), "attach");
    assert_eq!(name(pointer.delete("t")), "delete");
    assert_eq!(name(pointer.delete_checkpoint("t", &id)), "delete_checkpoint");
    assert_eq!(name(pointer.threads()), "threads");
    assert_eq!(name(pointer.exists("t")), "exists");
    assert_eq!(name(pointer.head("t")), "head");
    assert_eq!(name(pointer.locate(&id)), "locate");
    assert_eq!(name(pointer.fork("t", None, "u")), "fork");
    assert_eq!(name(pointer.rename("t", "u")), "rename");
    assert_eq!(name(pointer.rollback("t", &id)), "rollback");
    assert_eq!(name(pointer.find(&FindQuery::default())), "find");
    assert_eq!(name(pointer.vacuum(&VacuumQuery::default())), "vacuum");
    assert_eq!(name(pointer.retain(None, None)), "retain");
    assert_eq!(name(pointer.max_history(None)), "max_history");
}

#[test]
fn every_call_is_forwarded() {
    check(&Echo);
    check::<&Echo>(&&Echo);
    check::<&dyn Checkpointer>(&(&Echo as &dyn Checkpointer));
    check::<Box<dyn Checkpointer>>(&(Box::new(Echo) as Box<dyn Checkpointer>));
    check::<Arc<dyn Checkpointer>>(&(Arc::new(Echo) as Arc<dyn Checkpointer>));
    check::<Box<Arc<Echo>>>(&Box::new(Arc::new(Echo)));
}
