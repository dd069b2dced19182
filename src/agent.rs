//! The state of an agent run as Locus writes it, for those who have no state of their own yet.
//!
//! Plain values: nothing of the store knows them. What is not named here is kept as it came and written
//! back behind what is, in its order.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who says a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// Who gives the agent its task.
    System,
    /// The person.
    #[default]
    User,
    /// The model.
    Assistant,
    /// A tool that was called.
    Tool,
    /// Any other, by its name.
    #[serde(untagged)]
    Other(String),
}

/// A message of a run.
///
/// A member that is missing is read as empty, and is there when it is written.
///
/// ```
/// use taffrail::{Message, Role};
/// let message = Message::user("Find a flight.");
/// assert_eq!((message.role, message.content.as_str()), (Role::User, "Find a flight."));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What.
    pub content: String,
    /// The calls of tools that it asks for.
    pub tool_calls: Vec<Value>,
    /// The call that it answers.
    pub tool_call_id: Option<String>,
    /// The tool's name, or the speaker's.
    pub name: Option<String>,
    /// What else belongs to it.
    pub metadata: Map<String, Value>,
    /// All other members.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Message {
    /// The agent's task.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// What the person says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// What the model says.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// What a tool answers to the call of that id.
    pub fn tool(call: impl Into<String>, content: impl Into<String>) -> Self {
        Message { tool_call_id: Some(call.into()), ..Self::new(Role::Tool, content) }
    }

    fn new(role: Role, content: impl Into<String>) -> Self {
        Message { role, content: content.into(), ..Message::default() }
    }
}

/// The state of a run: its messages, how many steps it took, and whatever else it was read with.
///
/// ```
/// use taffrail::prelude::*;
/// use taffrail::{AgentState, MemoryCheckpointer, Message};
/// let place = MemoryCheckpointer::new();
/// let state = AgentState::new("run-1", "planner").with_message(Message::user("Book a flight."));
/// place.put("trip", &state)?;
/// let state: AgentState = place.get("trip")?.unwrap();
/// let state = state.with_message(Message::assistant("Where to?")).with_iteration(1);
/// place.put("trip", &state)?;
/// assert_eq!(place.get::<AgentState>("trip")?, Some(state));
/// # Ok::<(), taffrail::Error>(())
/// ```
///
/// A member that is missing is read as empty, and is there when it is written. A number in what is not named here
/// is read as `serde_json::Value` holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentState {
    /// The run.
    pub run_id: String,
    /// Whose run it is.
    pub agent_id: String,
    /// What was said, oldest first.
    pub messages: Vec<Message>,
    /// How many steps were taken.
    pub iteration: u64,
    /// How many there may be.
    pub max_iterations: u64,
    /// All other members, in the order in which they came.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl AgentState {
    /// The state of a run before its first step; there may be 20.
    pub fn new(run_id: impl Into<String>, agent_id: impl Into<String>) -> Self {
        AgentState { run_id: run_id.into(), agent_id: agent_id.into(), ..AgentState::default() }
    }

    /// The same with one more message.
    pub fn with_message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// The same after so many steps.
    pub fn with_iteration(mut self, iteration: u64) -> Self {
        self.iteration = iteration;
        self
    }
}

impl Default for AgentState {
    fn default() -> Self {
        let (run_id, agent_id, messages, extra) = Default::default();
        AgentState { run_id, agent_id, messages, iteration: 0, max_iterations: 20, extra }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_kept_in_its_order() {
        let text = r#"{"run_id":"r","agent_id":"a","messages":[{"role":"critic","content":"no","tool_calls":[{"z":1,"a":{"y":2,"b":3}}],"tool_call_id":"c","name":"n","metadata":{"q":1.0,"p":null},"score":0.1}],"iteration":3,"max_iterations":9,"zeta":0.0,"alpha":[{"n":18446744073709551615,"m":-1}],"Zeta":null}"#;
        let state: AgentState = serde_json::from_str(text).unwrap();
        assert_eq!((state.messages[0].role.clone(), state.iteration), (Role::Other("critic".to_owned()), 3));
        assert_eq!(serde_json::to_string(&state).unwrap(), text);
    }

    #[test]
    fn messages_are_made_by_their_roles() {
        let state = AgentState::new("r", "a")
            .with_message(Message::system("s"))
            .with_message(Message::user("u"))
            .with_message(Message::assistant("a"))
            .with_message(Message::tool("call-1", "t"))
            .with_iteration(7);
        let written = serde_json::to_value(&state).unwrap();
        let roles: Vec<&Value> = written["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert_eq!(
            (&written["messages"][3]["tool_call_id"], &written["iteration"], &written["max_iterations"]),
            (&"call-1".into(), &7.into(), &20.into())
        );
        assert_eq!(serde_json::from_value::<AgentState>(written).unwrap(), state);
        assert_eq!(serde_json::from_str::<AgentState>("{}").unwrap(), AgentState::default());
    }
}
