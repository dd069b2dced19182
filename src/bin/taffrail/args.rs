//! The command line as it is typed: every verb, argument and option, and their help.
//!
//! Parsing, `--help`, the man page and the shell completions all come from this one definition.
//! What can be told wrong without a store (a negative limit, a text that is no number) is refused
//! here, as a usage error; what the values mean is up to the verbs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;
use jiff::{Span, SpanRelativeTo};
use serde_json::value::RawValue;

/// Keeps the state of AI agents: every step durable, the newest at hand, all of them readable.
#[derive(Parser)]
#[command(name = "taffrail", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct CommandLine {
    /// The place: DIR, log:DIR, file:DIR, sqlite:FILE or memory: [default: $TAFFRAIL_STORE, else .taffrail]
    #[arg(long, global = true, value_name = "PLACE")]
    pub store: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 not found, 2 usage, 3 damage, 4 conflict or busy, 5 input refused, 6 the system said no.\n\
An argument that begins with - goes after --.";

/// What to do.
#[derive(Subcommand)]
pub enum Verb {
    /// Put a state, from a file or standard input, and print its id
    Put(Put),
    /// Print a thread's newest state, exactly the bytes that were put
    Get(Get),
    /// List a thread's checkpoints, newest first: seq, id, time, bytes, metadata
    History(History),
    /// List the threads, in byte order
    Threads(Threads),
    /// Find checkpoints by their metadata or by text in their states, newest first: thread, seq, id, time, bytes, metadata
    #[command(long_about = FIND)]
    Find(Find),
    /// Say what changed between two checkpoints of a thread, as a JSON Patch (RFC 6902)
    #[command(long_about = DIFF)]
    Diff(Diff),
    /// Put a changed copy of a checkpoint as its thread's newest, and print the new id
    #[command(long_about = UPDATE)]
    Update(Update),
    /// Print new checkpoints as they come, of one thread or of all, from any process
    Watch(Watch),
    /// Attach a value to a checkpoint, which may be yet to come
    Attach(Attach),
    /// List what is attached to a checkpoint: key, type, bytes
    Attachments(Attachments),
    /// Decide what a run waits for, as the one of all who try, and print the id of the checkpoint that says so
    #[command(long_about = APPROVE)]
    Approve(Approve),
    /// List the runs that wait for an approval: thread, approval, since when, what it is for
    Waiting(Listing),
    /// Delete a thread, or one checkpoint of it
    Delete(Delete),
    /// Make a new thread of a thread's checkpoints up to one, and print the id of its newest
    Fork(Fork),
    /// Give a thread another name
    Rename(Rename),
    /// Make a checkpoint the thread's newest again, delete those behind it, and say how many
    Rollback(Rollback),
    /// Set how many checkpoints each thread (or one) keeps, from now on
    Retain(Retain),
    /// Delete old checkpoints, and threads that have been idle, and say how many
    #[command(long_about = VACUUM)]
    Vacuum(Vacuum),
    /// Give the space of what was deleted or trimmed back
    Compact,
    /// Say how large the store is
    Stats(Listing),
    /// Read everything, change nothing, and list what is damaged, by file and offset
    Verify(Listing),
    /// Copy the store as it is at one moment into a new one, beside whoever has it open
    Backup(Backup),
    /// Salvage all that can be read of a damaged store into a new one; changes nothing in the old one
    Repair(Salvage),
    /// Write checkpoints as JSON Lines, each thread oldest first
    Export(Export),
    /// Take in checkpoints from JSON Lines or an SQLite database; a second time adds nothing
    #[command(long_about = IMPORT)]
    Import(Import),
    /// Copy all threads from one place to another; a second time adds only what is new
    #[command(long_about = COPY)]
    Copy(Copy),
    /// Watch a small agent run be killed in the middle and resumed
    Demo(Demo),
    /// Put the same states into a new store and into SQLite, in turn, and say what each took on this machine
    Bench(Bench),
    /// Print a completion script
    Completions(Completions),
    /// Print the manual page, or that of one verb
    Man(Manual),
}

const FIND: &str = "Find checkpoints by their metadata or by text in their states, newest first; without a condition all of them.\n\n\
KEY is a path: names separated by dots, an element of an array by its number from 0 on; \\ takes the next character as it is, so a\\.b \
is the member a.b, and a\\=b the member a=b. VALUE is JSON if it parses, else a string. Numbers are equal by value, null is not \
absence. Text is sought in the names and values of a JSON state, escapes decoded, and in the bytes of any other. Where nothing is \
found the exit code is 1.";

const APPROVE: &str = "Decide what a run waits for, and print the id of the checkpoint that says so.\n\n\
Of all who decide, in any process, one ends with 0, and the run gets what that one decided; the others, and who decides for a run \
that waits for nothing, end with 4. With --id nothing is decided but what `waiting` has shown.";

const DIFF: &str = "Say what changed between two checkpoints of a thread, as a JSON Patch (RFC 6902): one array, or on a terminal a line \
for what went and one for what came, coloured unless NO_COLOR is set.\n\n\
States that are not JSON, or hold numbers beyond 64 bits or a name twice, are compared as bytes: an object with `why`, the `before` and \
`after` types and sizes, and the `first_difference`, null where there is none. The exit code is 0 whether or not something changed.";

const UPDATE: &str = "Put a changed copy of a checkpoint as its thread's newest, and print the new id. The old checkpoint stays, and is \
the new one's parent.\n\n\
The change is a JSON Patch (RFC 6902), as `diff` prints it, all of which applies or nothing. Where another writer puts to the thread \
meanwhile nothing is written, and the exit code is 4.";

const VACUUM: &str = "Delete old checkpoints, and threads that have been idle, and say how many.\n\n\
With --older-than a checkpoint goes that is older, with --keep one that is not among its thread's newest, with both one that is \
both; a thread's newest checkpoint stays. With --idle a thread goes whole if its newest checkpoint is older. At least one of the \
three is needed. Ages go by `saved_at`. A length of time is a number with its unit, as 90s, 15m, 12h, 30d or 2w; a day has 24 hours.";

const IMPORT: &str = "Take in checkpoints from JSON Lines, as `export` writes them, or from an SQLite database of windlass' or \
LangGraph's, which is never changed; a second time adds nothing.\n\n\
A line needs `thread` and one of `state`, `text` (a JSON state as a string) or `data` (base64); `id`, `parent`, `saved_at`, \
`metadata` and `type` are taken where they stand. An id that the thread has is skipped. A thread that is there already is extended \
only where its ids stand in the file in the same order, else it is skipped and named. Where the store keeps so many checkpoints of \
each thread, the newest of them are taken and the rest is counted. A checkpoint whose parent is not there begins anew, without one. \
A line that is refused is named and the others are done.\n\n\
Of a database every row that is refused is named, and what of a row cannot be kept. Of windlass' rows the number is the id. A LangGraph \
thread in a namespace is THREAD?checkpoint_ns=NAMESPACE; pending writes become attachments.";

const COPY: &str = "Copy all threads from one place to another; a second time adds only what is new.\n\n\
Ids, order, parents, metadata, times and attachments go along, and all that was put is read back and compared. An id that its \
thread has is skipped. A thread that is there already is extended only where its ids stand in SRC in the same order, else it is \
skipped and named. Where DST keeps so many checkpoints of each thread, the newest of them are taken and the rest is counted; a DST \
without a thread is first set to keep as many as SRC. What was copied before an interruption stays, and the next time goes on there.";

#[derive(Args)]
pub struct Put {
    /// The thread
    pub thread: String,
    /// The state; - is standard input
    #[arg(default_value = "-", hide_default_value = true)]
    pub file: PathBuf,
    /// What the bytes are: json (which is checked), bytes, msgpack, or a name of your own
    #[arg(long = "type", value_name = "TYPE", default_value = "json")]
    pub tag: String,
    /// The checkpoint's id; one that the thread has is replaced in place [default: a fresh one]
    #[arg(long)]
    pub id: Option<String>,
    /// The checkpoint it follows [default: the thread's newest]
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// A small JSON object kept beside the state
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// Only if this is the thread's newest checkpoint
    #[arg(long, value_name = "ID", conflicts_with = "expect_empty")]
    pub expect_head: Option<String>,
    /// Only if the thread does not exist
    #[arg(long)]
    pub expect_empty: bool,
    /// Leave the state with the operating system: it survives this process, not a power cut
    #[arg(long)]
    pub buffered: bool,
}

#[derive(Args)]
pub struct Get {
    /// The thread
    pub thread: String,
    /// This checkpoint instead of the newest
    #[arg(long)]
    pub id: Option<String>,
    /// Indent a JSON state; its digits, key order and strings stay as they are
    #[arg(long)]
    pub pretty: bool,
}

#[derive(Args)]
pub struct History {
    /// The thread
    pub thread: String,
    /// At most so many, or all
    #[arg(long, value_name = "N|all", default_value = "20")]
    pub limit: Limit,
    /// Only what is older than this checkpoint
    #[arg(long, value_name = "ID")]
    pub before: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// One JSON object a line with the state in it, as `export` writes it
    #[arg(long)]
    pub states: bool,
}

#[derive(Args)]
pub struct Threads {
    /// Those that fit: * any text, ? one character, \ takes the next as it is
    #[arg(long, conflicts_with = "prefix")]
    pub pattern: Option<String>,
    /// Those that begin with this
    #[arg(long)]
    pub prefix: Option<String>,
    /// At most so many, or all
    #[arg(long, value_name = "N|all", default_value = "all")]
    pub limit: Limit,
    /// Pass over so many
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub offset: usize,
    /// Only ids greater than this one: a cursor that does not shift between pages
    #[arg(long, value_name = "THREAD")]
    pub after: Option<String>,
    /// With checkpoints, bytes and when last saved, separated by tabs
    #[arg(long)]
    pub long: bool,
    /// One JSON object a line
    #[arg(long, conflicts_with = "nul")]
    pub json: bool,
    /// End each with NUL instead of a line break, and never quote
    #[arg(short = '0')]
    pub nul: bool,
}

#[derive(Args)]
pub struct Find {
    /// With this member in the metadata; all of them where it is given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub metadata: Vec<Member>,
    /// With each of these words somewhere in the state, in any case
    #[arg(long, value_name = "WORDS")]
    pub text: Option<String>,
    /// With this in the state as it stands here, blanks, case and all
    #[arg(long, value_name = "TEXT")]
    pub substring: Option<String>,
    /// Only in this thread
    #[arg(long)]
    pub thread: Option<String>,
    /// At most so many, or all
    #[arg(long, value_name = "N|all", default_value = "all")]
    pub limit: Limit,
    /// One JSON object a line, as `history` has it
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Diff {
    /// The thread
    pub thread: String,
    /// The first checkpoint
    #[arg(value_name = "A")]
    pub before: String,
    /// The second
    #[arg(value_name = "B")]
    pub after: String,
    /// The patch on a terminal too
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Update {
    /// The thread
    pub thread: String,
    /// The checkpoint to begin with
    #[arg(value_name = "ID")]
    pub old: String,
    /// The patch; - is standard input
    #[arg(default_value = "-", hide_default_value = true)]
    pub patch: PathBuf,
    /// The new checkpoint's id, which must not be there yet [default: a fresh one]
    #[arg(long = "id", value_name = "ID")]
    pub new: Option<String>,
    /// A small JSON object kept beside the new state [default: none]
    #[arg(long, value_name = "JSON", conflicts_with = "keep_metadata")]
    pub metadata: Option<String>,
    /// Keep the old one's metadata
    #[arg(long)]
    pub keep_metadata: bool,
    /// Only if this is the thread's newest checkpoint
    #[arg(long, value_name = "ID")]
    pub expect_head: Option<String>,
}

#[derive(Args)]
pub struct Watch {
    /// Only this thread, which may not be there yet [default: all, each line then begins with the thread]
    pub thread: Option<String>,
    /// End after so many
    #[arg(long, value_name = "N|all", default_value = "all")]
    pub limit: Limit,
    /// One JSON object a line, as `history` has it
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Attach {
    /// The thread
    pub thread: String,
    /// The checkpoint
    pub id: String,
    /// What the value is found by, 1 to 1,024 bytes
    pub key: String,
    /// The value; - is standard input
    #[arg(default_value = "-", hide_default_value = true)]
    pub file: PathBuf,
    /// What the bytes are: json (which is checked), bytes, msgpack, or a name of your own
    #[arg(long = "type", value_name = "TYPE", default_value = "bytes")]
    pub tag: String,
    /// Only if the key has no value: of all who try, in any process, one ends with 0 and the others with 4
    #[arg(long)]
    pub keep: bool,
}

#[derive(Args)]
pub struct Attachments {
    /// The thread
    pub thread: String,
    /// The checkpoint
    pub id: String,
    /// Print the value under this key, exactly the bytes that were attached
    #[arg(long, conflicts_with = "json")]
    pub key: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Approve {
    /// The run's thread
    pub thread: String,
    /// The decision: JSON if it is that, else a text; - is JSON from standard input
    #[arg(default_value = "true", allow_negative_numbers = true)]
    pub decision: String,
    /// Only if it waits in this checkpoint, as `waiting --json` tells
    #[arg(long)]
    pub id: Option<String>,
}

#[derive(Args)]
pub struct Delete {
    /// The thread
    pub thread: String,
    /// Only this checkpoint
    #[arg(long)]
    pub id: Option<String>,
}

#[derive(Args)]
pub struct Fork {
    /// The thread
    pub thread: String,
    /// The new thread, which must not be there
    pub new: String,
    /// Up to this checkpoint [default: the thread's newest]
    #[arg(long, value_name = "ID")]
    pub at: Option<String>,
}

#[derive(Args)]
pub struct Rename {
    /// The thread
    pub thread: String,
    /// Its new name, which must be no thread's
    pub new: String,
}

#[derive(Args)]
pub struct Rollback {
    /// The thread
    pub thread: String,
    /// The checkpoint
    pub id: String,
}

#[derive(Args)]
pub struct Retain {
    /// So many, or all
    #[arg(value_name = "N|all")]
    pub keep: Limit,
    /// Only for this thread
    #[arg(long)]
    pub thread: Option<String>,
}

#[derive(Args)]
#[command(group(ArgGroup::new("what").args(["older_than", "idle", "keep"]).required(true).multiple(true)))]
pub struct Vacuum {
    /// Checkpoints older than this, but never a thread's newest
    #[arg(long, value_name = "TIME")]
    pub older_than: Option<Period>,
    /// Whole threads whose newest checkpoint is older than this
    #[arg(long, value_name = "TIME")]
    pub idle: Option<Period>,
    /// Keep each thread's newest so many, whatever their age
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Only in this thread
    #[arg(long)]
    pub thread: Option<String>,
    /// Say how many that would be, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args)]
pub struct Listing {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Backup {
    /// The directory of the new store, which must not be there or be empty
    #[arg(value_name = "DEST")]
    pub dest: PathBuf,
}

#[derive(Args)]
pub struct Salvage {
    /// The directory of the new store, which must not be there or be empty
    #[arg(value_name = "DEST")]
    pub dest: PathBuf,
    /// What was lost, as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Export {
    /// The threads [default: all]
    #[arg(value_name = "THREAD")]
    pub threads: Vec<String>,
}

#[derive(Args)]
pub struct Import {
    /// JSON Lines, or an SQLite database; - is standard input
    pub file: PathBuf,
}

#[derive(Args)]
pub struct Copy {
    /// The place to copy from, which is only read
    #[arg(value_name = "SRC")]
    pub source: String,
    /// The place to copy to, made where there is none
    #[arg(value_name = "DST")]
    pub dest: String,
}

#[derive(Args)]
pub struct Demo {
    /// Where the agent's tools note what they did: makes this process the agent
    #[arg(long, hide = true, value_name = "FILE", requires = "thread")]
    pub agent: Option<PathBuf>,
    /// The agent's thread
    #[arg(long, hide = true)]
    pub thread: Option<String>,
    /// After so many steps stand still, to be killed
    #[arg(long, hide = true, value_name = "N")]
    pub stall_after: Option<u64>,
}

#[derive(Args)]
pub struct Bench {
    /// Where both are made, and removed again [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// One JSON value a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Completions {
    /// For which shell
    pub shell: Shell,
}

#[derive(Args)]
pub struct Manual {
    /// The verb
    pub verb: Option<String>,
}

/// A count, or `all`; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<usize>);

impl std::str::FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Limit(None)),
            _ => text.parse().map(|count| Limit(Some(count))).map_err(|_| "a limit is 0 or more, or `all`".to_owned()),
        }
    }
}

/// A member of metadata: its path, and its value as JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member(pub String, pub String);

impl std::str::FromStr for Member {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut escaped = false;
        let ends = |character: char| {
            let ends = character == '=' && !escaped;
            escaped = character == '\\' && !escaped;
            ends
        };
        let (path, value) = text.split_once(ends).ok_or("a member is KEY=VALUE; an = in KEY goes behind a \\")?;
        let json = match serde_json::from_str::<&RawValue>(value) {
            Ok(json) => json.get().to_owned(),
            Err(_) => serde_json::Value::from(value).to_string(),
        };
        Ok(Member(path.to_owned(), json))
    }
}

/// A length of time, from 0 up; a day has 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

impl std::str::FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span: Result<Span, _> = text.parse();
        let length = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours())).and_then(Duration::try_from);
        length.map(Period).map_err(|_| "a length of time is a number with its unit, as 90s, 15m, 12h, 30d or 2w".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn periods() {
        let seconds = |text: &str| text.parse::<Period>().map(|period| period.0.as_secs());
        for (text, length) in
            [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600), ("1d 12h", 129_600), ("0s", 0)]
        {
            assert_eq!(seconds(text), Ok(length), "{text}");
        }
        for text in ["", "30", "d", "-1d", "30d ago", "1mo", "1y", "30 parsecs", "99999999999999999999s", "1e3s", "NaNd"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn members() {
        for (text, path, json) in [
            ("a=1", "a", "1"),
            ("a.b= [1, 2] ", "a.b", "[1, 2]"),
            ("a=x=y", "a", "\"x=y\""),
            (r"a\=b=null", r"a\=b", "null"),
            (r#"a\\="1""#, r"a\\", "\"1\""),
            ("=", "", "\"\""),
            ("a=18446744073709551617", "a", "18446744073709551617"),
            ("a=01", "a", "\"01\""),
        ] {
            assert_eq!(text.parse(), Ok(Member(path.to_owned(), json.to_owned())), "{text}");
        }
        assert!(["", "a", r"a\=1"].iter().all(|text| text.parse::<Member>().is_err()));
    }

    #[test]
    fn limits() {
        assert_eq!("0".parse(), Ok(Limit(Some(0))));
        assert_eq!("18446744073709551615".parse(), Ok(Limit(Some(usize::MAX))));
        assert_eq!("all".parse(), Ok(Limit(None)));
        assert!(["-1", "", "1.5", "none", "18446744073709551616"].iter().all(|text| text.parse::<Limit>().is_err()));
    }
}
