//! `copy SRC DST` on the command line: what it says, how it ends, and what is left when it is ended.

#![cfg(feature = "cli")]

mod support;

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use support::{Cli, Ended};
use taffrail::prelude::*;
use taffrail::testing::states::noise;
use taffrail::{FileCheckpointer, PutOptions, Store, TypeTag};

fn copy(cli: &Cli, source: &str, dest: &str) -> Ended {
    Ended::of(cli.command().args(["copy", source, dest]).output().unwrap())
}

#[track_caller]
fn tallied(ended: Ended, copied: u64, skipped: u64) {
    assert_eq!((ended.code, ended.out.as_slice()), (Some(0), &b""[..]), "{}", ended.err);
    assert!(ended.err.ends_with(&format!("copied {copied}, skipped {skipped}, refused 0\n")), "{}", ended.err);
}

/// What a place holds, as it is exported, without the numbers.
fn story(cli: &Cli, place: &str) -> Vec<String> {
    let ended = Ended::of(cli.command().args(["--store", place, "export"]).output().unwrap());
    let text = String::from_utf8(ended.done()).unwrap();
    let line = |line: &str| match (line.find(",\"seq\":"), line.find(",\"parent\":")) {
        (Some(seq), Some(parent)) => format!("{}{}", &line[..seq], &line[parent..]),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect()
}

/// The files of a folder, by name and content.
fn files(cli: &Cli, dir: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(cli.dir().join(dir)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_copy_is_the_same_story_and_leaves_its_source_alone() {
    let cli = Cli::new();
    let first = cli.put("t", b" {\"n\":1.0}\n", &["--metadata", "{\"who\":\"me\"}", "--id", "own-id"]);
    cli.put("t", b"\xff", &["--type", "bytes", "--parent", &first]);
    cli.put("a\nb", b"\"\\ud83d\"", &[]);
    let before = files(&cli, "runs");
    tallied(copy(&cli, "runs", "file:folder"), 3, 0);
    tallied(copy(&cli, "runs", "file:folder"), 0, 3);
    tallied(copy(&cli, "file:folder", "log:back"), 3, 0);
    assert_eq!(story(&cli, "back"), story(&cli, "runs"));
    assert_eq!(files(&cli, "runs"), before);
    cli.put("t", b"1", &[]);
    tallied(copy(&cli, "runs", "back"), 1, 3);
    assert_eq!(story(&cli, "back"), story(&cli, "runs"));
    tallied(copy(&cli, "runs", "memory:"), 4, 0);
}

#[test]
fn a_source_is_never_made_and_a_place_is_not_copied_to_itself() {
    let cli = Cli::new();
    for source in ["runs", "log:runs", "file:runs"] {
        copy(&cli, source, "dest").failed(1, "runs");
    }
    assert!(cli.outside().is_empty() && !cli.store().exists(), "nothing was made");
    cli.put("t", b"1", &[]);
    std::os::unix::fs::symlink("runs", cli.dir().join("alias")).unwrap();
    for (source, dest) in [("runs", "runs"), ("runs", "log:./runs"), ("log:alias", "runs"), ("runs", "file:runs")] {
        copy(&cli, source, dest).failed(2, "same place");
    }
    cli.run(&["copy", "runs", "dest"]).failed(2, "--store");
    fs::create_dir(cli.dir().join("other")).unwrap();
    fs::write(cli.dir().join("other/mine"), "1").unwrap();
    copy(&cli, "runs", "other").failed(5, "other");
    assert_eq!(files(&cli, "other").len(), 1);
}

#[test]
fn what_is_left_behind_is_named_and_what_is_refused_ends_with_5() {
    let cli = Cli::new();
    let folder = FileCheckpointer::open(cli.dir().join("folder")).unwrap();
    for own in ["a", "b", "c"] {
        folder.put_with("t", &own, taffrail::PutOptions::default().id(CheckpointId::new(own).unwrap())).unwrap();
    }
    folder.put_bytes("u", TypeTag::BYTES, b"1", taffrail::PutOptions::default()).unwrap();
    folder.attach("t", &CheckpointId::new("a").unwrap(), "paid", TypeTag::JSON, b"1", taffrail::OnExisting::Keep).unwrap();
    drop(folder);
    let dest = Store::open(cli.store()).unwrap();
    dest.put("t", &1).unwrap();
    let attaches = dest.capabilities().attachments;
    drop(dest);
    let ended = copy(&cli, "file:folder", "runs");
    assert_eq!(ended.code, Some(0));
    let lines: Vec<&str> = ended.err.lines().collect();
    assert!(lines[0].starts_with("taffrail: file:folder to runs: thread \"t\" skipped: "), "{}", ended.err);
    assert_eq!(lines[1..], ["copied 1, skipped 3, refused 0"]);
    let ended = copy(&cli, "file:folder", "new");
    let left = "taffrail: file:folder to new: thread \"t\", checkpoint \"a\": attachment \"paid\" left behind: ";
    assert_eq!((ended.code, ended.err.contains(left)), (Some(0), !attaches), "{}", ended.err);
    assert!(ended.err.ends_with("copied 4, skipped 0, refused 0\n"), "{}", ended.err);
}

#[test]
fn ended_half_way_by_any_signal_it_goes_on_where_it_was() {
    let cli = Cli::new();
    let source = Store::options().max_history(None).open(cli.store()).unwrap();
    let state = |step: u32| (0..4_000u32).map(|at| (at.wrapping_mul(step + 7) >> 3) as u8).collect::<Vec<_>>();
    for step in 0..6_000 {
        let options = taffrail::PutOptions::default().durability(taffrail::Durability::Buffered);
        source.put_bytes(if step % 2 == 0 { "long" } else { "other" }, TypeTag::BYTES, &state(step), options).unwrap();
    }
    source.close().unwrap();
    let whole = story(&cli, "runs");
    for (round, signal) in [Signal::INT, Signal::KILL, Signal::KILL, Signal::TERM].into_iter().enumerate() {
        let dest = format!("dest{round}");
        let mut child = cli.command().args(["copy", "runs", &dest]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Once there is something of it; it may also end before the signal, which is as good.
        while child.try_wait().unwrap().is_none() {
            let there = Store::options().read_only(true).create(false).open(cli.dir().join(&dest));
            if there.is_ok_and(|there| there.exists("long").unwrap_or(false)) {
                let _ = kill_process(Pid::from_child(&child), signal);
                break;
            }
        }
        child.wait().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let there = story(&cli, &dest);
        for thread in ["long", "other"] {
            let of = |story: &[String]| story.iter().filter(|line| line.contains(thread)).cloned().collect::<Vec<_>>();
            assert!(of(&whole).starts_with(&of(&there)), "round {round}: what is there of {thread} is its beginning");
        }
        tallied(copy(&cli, "runs", &dest), 6_000 - there.len() as u64, there.len() as u64);
        assert_eq!(story(&cli, &dest), whole);
        assert_eq!(Ended::of(cli.command().args(["--store", &dest, "verify"]).output().unwrap()).code, Some(0));
    }
}

/// Where a segment is missing, or a part of one is damaged, a copy and an export are not whole, and say so.
#[test]
fn a_store_that_cannot_be_read_whole_ends_with_3() {
    let cli = Cli::new();
    let store = Store::options().segment_bytes(64 * 1024).open(cli.store()).unwrap();
    for number in 0..12u8 {
        store.put_bytes(&format!("t{number}"), TypeTag::BYTES, &noise(u64::from(number), 12_000), PutOptions::default()).unwrap();
    }
    store.close().unwrap();
    let first = cli.store().join("0000000000000001.seg");
    let _ = fs::remove_file(first.with_extension("hint"));
    let mut bytes = fs::read(&first).unwrap();
    // The head of its second frame.
    let second = bytes.windows(4).enumerate().filter(|(_, window)| window == b"TfRm").nth(1).unwrap().0;
    bytes[second] ^= 1;
    fs::write(&first, bytes).unwrap();
    let ends_with_3 = |words: &str| {
        for args in [&["copy", "runs", "elsewhere"][..], &["--store", "runs", "export"]] {
            let ended = Ended::of(cli.command().args(args).output().unwrap());
            assert!(ended.code == Some(3) && ended.err.contains(words), "{args:?}: {:?} {}", ended.code, ended.err);
        }
    };
    ends_with_3("was left out");
    fs::remove_file(first).unwrap();
    ends_with_3("cannot be read");
}

/// A state of the source that is damaged is named, all else is copied, and the copy ends with 3.
#[test]
fn what_is_damaged_is_left_behind_by_name() {
    let cli = Cli::new();
    let files = cli.store().with_file_name("files");
    let source = FileCheckpointer::open(&files).unwrap();
    for own in ["a", "b", "c"] {
        source.put_with("t", &format!("at {own}"), PutOptions::default().id(own.parse().unwrap())).unwrap();
    }
    drop(source);
    let file = fs::read_dir(&files)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("at b")));
    let file = file.unwrap();
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("at b", "at z")).unwrap();
    let ended = copy(&cli, "file:files", "runs");
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert!(ended.err.contains("thread \"t\", checkpoint \"b\" left behind: "), "{}", ended.err);
    assert!(ended.err.contains("1 of the source's checkpoints are damaged and stay behind; 2 are there"), "{}", ended.err);
    let store = Store::open(cli.store()).unwrap();
    assert_eq!(store.list("t", &taffrail::HistoryQuery::default()).unwrap().count(), 2);
}
