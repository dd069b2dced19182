//! Conversations: what an agent that calls tools keeps, whole at each step.

use super::text::{Dice, HEX, Tongue};

/// A JSON value; text stands as it is written, escapes done.
#[derive(Clone)]
enum Json {
    Plain(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    /// Compact; with dice, each object's keys in an order of their own.
    fn write(&self, out: &mut String, dice: &mut Option<Dice>) {
        match self {
            Json::Plain(plain) => out.push_str(plain),
            Json::Text(text) => {
                out.push('"');
                out.push_str(text);
                out.push('"');
            }
            Json::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    item.write(out, dice);
                }
                out.push(']');
            }
            Json::Object(members) => {
                let mut order: Vec<usize> = (0..members.len()).collect();
                if let Some(dice) = dice {
                    dice.shuffle(&mut order);
                }
                out.push('{');
                for (at, (key, value)) in order.iter().map(|at| &members[*at]).enumerate() {
                    out.push_str(if at > 0 { ",\"" } else { "\"" });
                    out.push_str(key);
                    out.push_str("\":");
                    value.write(out, dice);
                }
                out.push('}');
            }
        }
    }
}

/// How long the two messages of a step are, in bytes.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// What the assistant says.
    pub said: (usize, usize),
    /// What the tool answers.
    pub answered: (usize, usize),
}

/// A conversation that grows.
pub struct Chat {
    tongue: Tongue,
    dice: Dice,
    messages: Vec<Json>,
    results: Vec<String>,
    step: usize,
    tokens: [usize; 2],
    /// Whether its messages say little but who said what.
    is_plain: bool,
}

const TOOLS: [&str; 5] = ["read_file", "run_tests", "search", "list_dir", "apply_patch"];
const REPEATED_PERCENT: usize = 8;
/// The system message and the task stay when a summary takes the place of what follows them.
const KEPT_FIRST: usize = 2;

impl Chat {
    pub fn new(seed: u64) -> Self {
        Chat::begun(seed, 6000, 800)
    }

    /// One that begins with instructions and a task of so many bytes.
    pub fn begun(seed: u64, instructed: usize, asked: usize) -> Self {
        let (tongue, mut dice) = (Tongue::new(), Dice::new(seed));
        let message = |role: &str, content| Json::Object(vec![("role", Json::Text(role.to_owned())), ("content", Json::Text(content))]);
        let messages = vec![message("system", tongue.prose(&mut dice, instructed)), message("user", tongue.prose(&mut dice, asked))];
        Chat { tongue, dice, messages, results: Vec::new(), step: 0, tokens: [0; 2], is_plain: false }
    }

    /// One whose messages say little but who said what, and which tool was called.
    pub fn plain(seed: u64) -> Self {
        Chat { is_plain: true, ..Chat::new(seed) }
    }

    /// The assistant calls a tool, and the tool answers.
    pub fn step(&mut self, sizes: Sizes) {
        let dice = &mut self.dice;
        let call = Json::Text(format!("call_{}", dice.letters(HEX, 24)));
        let tool = Json::Text(TOOLS[dice.below(TOOLS.len())].to_owned());
        let text = |text: &str| Json::Text(text.to_owned());
        let bytes = dice.size(sizes.said.0, sizes.said.1);
        let said = self.tongue.prose(dice, bytes);
        let path = self.tongue.prose(dice, 40).replace(r"\n", "").replace([' ', '.'], "/");
        let function = Json::Object(vec![("name", tool.clone()), ("arguments", Json::Text(format!(r#"{{\"path\": \"{path}\"}}"#)))]);
        let calls = Json::Object(vec![("id", call.clone()), ("type", text("function")), ("function", function)]);
        let bytes = dice.size(sizes.answered.0, sizes.answered.1);
        let answered = if dice.percent(REPEATED_PERCENT) && !self.results.is_empty() {
            self.results[dice.below(self.results.len())].clone()
        } else if dice.percent(75) {
            self.tongue.code(dice, bytes)
        } else {
            self.tongue.prose(dice, bytes)
        };
        self.tokens = [self.tokens[0] + said.len() / 4, self.tokens[1] + answered.len() / 4];
        self.results.push(answered.clone());
        let (mut asked, mut told) = (vec![("role", text("assistant")), ("content", Json::Text(said))], vec![("role", text("tool"))]);
        if self.is_plain {
            asked.push(("tool_call", Json::Object(vec![("id", call.clone()), ("name", tool)])));
            told.push(("tool_call_id", call));
        } else {
            asked.push(("tool_calls", Json::List(vec![calls])));
            told.extend([("name", tool), ("tool_call_id", call)]);
        }
        told.push(("content", Json::Text(answered)));
        self.messages.extend([Json::Object(asked), Json::Object(told)]);
        self.step += 1;
    }

    /// Puts one message of so many bytes in the place of the oldest quarter.
    pub fn summarise(&mut self, bytes: usize) {
        let oldest = self.messages.len() / 4;
        let summary = Json::Text(self.tongue.prose(&mut self.dice, bytes));
        let summary = Json::Object(vec![("role", Json::Text("system".to_owned())), ("content", summary)]);
        self.messages.splice(KEPT_FIRST..KEPT_FIRST + oldest, [summary]);
    }

    /// The whole state; with a seed, the keys of every object in another order for each step.
    pub fn state(&self, shuffle: Option<u64>) -> Vec<u8> {
        let number = |number: usize| Json::Plain(number.to_string());
        let minutes = self.step * 37 / 60;
        let clock = format!(
            "2026-03-14T{:02}:{:02}:{:02}.{:06}Z",
            9 + minutes / 60,
            minutes % 60,
            self.step * 37 % 60,
            self.step * 7919 % 1_000_000
        );
        let counters = Json::Object(vec![
            ("input_tokens", number(self.tokens[1] * (self.step + 1) / 2)),
            ("output_tokens", number(self.tokens[0])),
            ("tool_calls", number(self.step)),
            ("cost_usd", Json::Plain(format!("{:.4}", self.tokens[1] as f64 * 3e-6 * self.step as f64))),
        ]);
        let state = Json::Object(vec![
            ("thread", Json::Text("run-7f3a9c".to_owned())),
            ("step", number(self.step)),
            ("updated_at", Json::Text(clock)),
            ("counters", counters),
            ("messages", Json::List(self.messages.clone())),
        ]);
        let mut out = String::new();
        state.write(&mut out, &mut shuffle.map(|seed| Dice::new(seed + self.step as u64)));
        out.into_bytes()
    }
}
