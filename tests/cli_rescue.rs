//! `backup` and `repair` on the command line: what they print, how they end, what they leave alone.

#![cfg(feature = "cli")]

mod support;

use std::fs;

use support::{Cli, Ended, json_lines, keys};

#[test]
fn backup_makes_a_store_of_its_own() {
    let cli = Cli::new();
    cli.put("t", b"[1]", &["--id", "a", "--metadata", "{\"k\":1}"]);
    cli.put("t", b"[2]", &["--id", "b"]);
    assert!(cli.ok(&["backup", "new/copy"]).is_empty());
    let on = |args: &[&str]| Ended::of(cli.command().args(["--store", "new/copy"]).args(args).output().unwrap());
    assert_eq!(on(&["history", "t", "--states"]).done(), cli.ok(&["history", "t", "--states"]));
    cli.run(&["backup", "new/copy"]).failed(5, "new/copy");
    cli.run(&["backup", "runs"]).failed(5, "own directory");
    cli.run(&["backup", "runs/inside"]).failed(5, "runs/inside");
    fs::write(cli.dir().join("file"), b"mine").unwrap();
    cli.run(&["backup", "file"]).failed(5, "file");
    assert_eq!(fs::read(cli.dir().join("file")).unwrap(), b"mine");
    assert_eq!(cli.run::<&str>(&["backup"]).code, Some(2));
    Ended::of(cli.command().args(["--store", "memory:", "backup", "x"]).output().unwrap()).failed(5, "backup");
    Ended::of(cli.command().args(["--store", "nowhere", "backup", "x"]).output().unwrap()).failed(1, "no store");
    assert!(!cli.dir().join("x").exists());
}

#[test]
fn repair_tells_what_it_salvaged_and_what_was_lost() {
    let cli = Cli::new();
    for step in 0..3 {
        cli.put("t", format!("\"state {step}\"").as_bytes(), &["--id", &format!("s{step}")]);
    }
    cli.put("u", b"\"another\"", &[]);
    assert_eq!(cli.ok(&["repair", "sound"]), b"4 checkpoints of 2 threads salvaged\n");
    assert!(cli.ok(&["repair", "json", "--json"]).is_empty());
    let on = |place: &str, args: &[&str]| Ended::of(cli.command().args(["--store", place]).args(args).output().unwrap());
    assert_eq!(on("sound", &["history", "t", "--states"]).done(), cli.ok(&["history", "t", "--states"]));

    let manifest = fs::read(cli.store().join("MANIFEST")).unwrap();
    fs::remove_file(cli.store().join("MANIFEST")).unwrap();
    cli.run(&["get", "t"]).failed(3, "repair");
    let out = String::from_utf8(cli.ok(&["repair", "without"])).unwrap();
    assert!(out.starts_with("note: runs/MANIFEST: MANIFEST is missing") && out.ends_with("4 checkpoints of 2 threads salvaged\n"), "{out}");

    fs::write(cli.store().join("MANIFEST"), manifest).unwrap();
    let segment = cli.store().join("0000000000000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(7).position(|window| window == b"state 1").unwrap();
    bytes[at] = b'S';
    fs::write(&segment, bytes).unwrap();
    let ended = cli.run(&["repair", "lossy"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(3), "taffrail: runs: 1 damaged place\n"));
    let out = String::from_utf8(ended.out).unwrap();
    assert!(out.contains("damage: runs/0000000000000001.seg at ") && out.contains("thread \"t\", checkpoint \"s1\""), "{out}");
    assert!(out.ends_with("3 checkpoints of 2 threads salvaged\n"), "{out}");
    let ended = cli.run(&["repair", "lossy-json", "--json"]);
    assert_eq!((ended.code, json_lines(&ended.out)[0]["id"].as_str()), (Some(3), Some("s1")));
    assert_eq!(keys(std::str::from_utf8(&ended.out).unwrap()), ["file", "offset", "thread", "id", "what"]);
    assert_eq!(on("lossy", &["get", "t", "--id", "s1"]).code, Some(1));
}

#[test]
fn repair_refuses_what_is_no_store_and_what_is_no_place() {
    let cli = Cli::new();
    cli.run(&["repair", "dest"]).failed(1, "runs");
    cli.put("t", b"1", &[]);
    cli.run(&["repair", "runs"]).failed(5, "own directory");
    cli.run(&["repair", "runs/below"]).failed(5, "own directory");
    fs::create_dir(cli.dir().join("full")).unwrap();
    fs::write(cli.dir().join("full/photo.jpg"), b"mine").unwrap();
    cli.run(&["repair", "full"]).failed(5, "photo.jpg");
    Ended::of(cli.command().args(["--store", "full", "repair", "dest"]).output().unwrap()).failed(5, "not a store");
    Ended::of(cli.command().args(["--store", "memory:", "repair", "dest"]).output().unwrap()).failed(5, "repair");
    for name in ["MANIFEST", "0000000000000001.seg"] {
        fs::write(cli.store().join(name), b"").unwrap();
    }
    cli.run(&["repair", "dest"]).failed(3, "nothing");
    assert!(!cli.dir().join("dest").exists());
}
