//! Another user, who may read the directory and not write there, or not even that.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use taffrail::{Checkpointer, PutOptions, Store, TypeTag};

const NOBODY: u32 = 65_534;

#[test]
fn another_user_reads_and_does_not_write() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP another user: only root can become one");
        return;
    }
    // A program that anybody may start, beside the store.
    let scratch = tempfile::tempdir().unwrap();
    let (program, dir) = (scratch.path().join("taffrail"), scratch.path().join("store"));
    fs::copy(env!("CARGO_BIN_EXE_taffrail"), &program).unwrap();
    let open_to = |mode| fs::set_permissions(scratch.path(), fs::Permissions::from_mode(mode)).unwrap();
    open_to(0o755);
    let store = Store::options().mode(0o755, 0o644).open(&dir).unwrap();
    store.put_bytes("t", TypeTag::JSON, b"1", PutOptions::default()).unwrap();
    let run = |arguments: &[&str]| -> Output {
        let mut command = Command::new(&program);
        command.arg("--store").arg(&dir).args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/");
        command.stdin(fs::File::open("/dev/null").unwrap()).output().unwrap()
    };
    for _ in 0..2 {
        let read = run(&["get", "t"]);
        assert!(read.status.success() && read.stdout == b"1", "{read:?}");
        for refused in [run(&["delete", "t"]), run(&["retain", "1"]), run(&["compact"])] {
            assert_eq!(refused.status.code(), Some(6), "{refused:?}");
        }
        assert_eq!(store.get_bytes("t").unwrap().unwrap().state.to_vec(), b"1");
        store.put_bytes("t", TypeTag::JSON, b"1", PutOptions::default()).unwrap();
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    let refused = run(&["get", "t"]);
    assert!(refused.status.code() == Some(6) && refused.stdout.is_empty(), "{refused:?}");
    assert!(store.recovery().damage.is_empty() && store.verify().unwrap().is_empty());
}
