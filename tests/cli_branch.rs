//! `fork`, `rename` and `rollback` as they are typed: what they print, and how they end.

mod support;

use support::{Cli, Ended};

/// Every kind of place on the disk that has branches.
const PLACES: [&str; 3] = ["runs", "file:runs", "sqlite:runs"];

fn run(cli: &Cli, place: &str, args: &[&str]) -> Ended {
    Ended::of(cli.command().args(["--store", place]).args(args).output().unwrap())
}

/// A place in which `t` has a, b and c.
fn with_thread(place: &str) -> Cli {
    let cli = Cli::new();
    for own in ["a", "b", "c"] {
        std::fs::write(cli.dir().join("state"), format!("\"{own}\"")).unwrap();
        run(&cli, place, &["put", "t", "state", "--id", own]).done();
    }
    cli
}

fn ids(cli: &Cli, place: &str, thread: &str) -> String {
    let lines = run(cli, place, &["history", thread, "--json"]).json();
    lines.iter().map(|line| line["id"].as_str().unwrap()).collect()
}

#[test]
fn each_does_what_it_says() {
    for place in PLACES {
        let cli = with_thread(place);
        assert_eq!(run(&cli, place, &["fork", "t", "u", "--at", "b"]).done(), b"b\n");
        assert_eq!(run(&cli, place, &["fork", "t", "v"]).done(), b"c\n");
        assert_eq!([ids(&cli, place, "t"), ids(&cli, place, "u"), ids(&cli, place, "v")], ["cba", "ba", "cba"]);
        assert_eq!(run(&cli, place, &["rollback", "t", "a"]).done(), b"2 checkpoints deleted\n");
        assert_eq!(run(&cli, place, &["rollback", "t", "a"]).done(), b"0 checkpoints deleted\n");
        assert_eq!(run(&cli, place, &["rollback", "v", "b"]).done(), b"1 checkpoint deleted\n");
        assert_eq!(run(&cli, place, &["rename", "u", "-w", "--"]).code, Some(2));
        assert_eq!(run(&cli, place, &["rename", "--", "u", "-w"]).done(), b"");
        assert_eq!(run(&cli, place, &["threads"]).done(), b"-w\nt\nv\n");
        assert_eq!(run(&cli, place, &["get", "--", "-w"]).done(), b"\"b\"");
        assert_eq!(run(&cli, place, &["get", "t"]).done(), b"\"a\"");
    }
}

#[test]
fn each_refusal_has_its_exit_code() {
    for place in PLACES {
        let cli = with_thread(place);
        run(&cli, place, &["fork", "t", "u"]).done();
        for (args, code, words) in [
            (&["fork", "absent", "new"][..], 1, "\"absent\""),
            (&["fork", "t", "new", "--at", "x"], 1, "checkpoint x is not in the thread"),
            (&["rename", "absent", "new"], 1, "\"absent\""),
            (&["rollback", "absent", "a"], 1, "\"absent\""),
            (&["rollback", "t", "x"], 1, "checkpoint x is not in the thread"),
            (&["fork", "t", "u"], 4, "there already"),
            (&["fork", "t", "t", "--at", "a"], 4, "there already"),
            (&["rename", "t", "u"], 4, "there already"),
            (&["rename", "t", "t"], 4, "there already"),
            (&["fork", "t", ""], 5, "thread id"),
            (&["fork", "t", "new", "--at", ""], 5, "1 to 255"),
            (&["rename", "", "new"], 5, "thread id"),
            (&["rollback", "t", ""], 5, "1 to 255"),
        ] {
            run(&cli, place, args).failed(code, words);
        }
        for args in [&["fork", "t"][..], &["fork", "t", "u", "v"], &["rename", "t"], &["rollback", "t"], &["fork", "--at"]] {
            assert_eq!(run(&cli, place, args).code, Some(2), "{args:?}");
        }
        assert_eq!([ids(&cli, place, "t"), ids(&cli, place, "u")], ["cba", "cba"]);
    }
}

#[test]
fn none_makes_a_store() {
    for place in PLACES.into_iter().chain(["runs"]) {
        let cli = Cli::new();
        for args in [&["fork", "t", "u"][..], &["rename", "t", "u"], &["rollback", "t", "a"]] {
            assert_eq!(run(&cli, place, args).code, Some(1), "{place} {args:?}");
        }
        assert!(!cli.store().exists() && cli.outside().is_empty(), "{place}");
    }
}
