//! The meaning of a rule's words, for all formats.

use ipnet::IpNet;

use super::findings::Kind;
use super::names::{LONGEST_NAME, is_name};
use super::{ANY, Action, INTERFACE, LONGEST_COMMENT, Scope, prefix};
use crate::suggest::closest;

/// A problem of a word. Its place is known to the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) kind: Kind,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Problem {
    pub(super) fn new(kind: Kind, message: impl Into<String>) -> Problem {
        Problem { kind, message: message.into(), help: None }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Says what was probably meant, if anything is close.
    pub(super) fn suggest(self, written: &str, candidates: &[&str]) -> Problem {
        match closest(written, candidates) {
            Some(candidate) => self.help(format!("did you mean `{candidate}`?")),
            None => self,
        }
    }
}

/// Makes an input safe to print: shortened, and without control characters.
pub(super) fn shown(word: &str) -> String {
    const LONGEST: usize = 64;
    let mut shown: String = word.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if word.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// `permit` or `deny`.
pub(super) fn action(word: &str) -> Result<Action, Problem> {
    match word {
        "permit" => Ok(Action::Permit),
        "deny" => Ok(Action::Deny),
        _ => {
            let message = format!("expected `permit` or `deny`, found `{}`", shown(word));
            Err(Problem::new(Kind::Rule, message).suggest(word, &["permit", "deny"]))
        }
    }
}

/// Whose list a rule stands in, as tables of rules say it.
pub(super) fn scope(word: &str) -> Result<Scope, Problem> {
    match word {
        "prefix" => Ok(Scope::Prefix),
        INTERFACE => Ok(Scope::Interface),
        _ => {
            let message = format!("expected `prefix` or `{INTERFACE}`, found `{}`", shown(word));
            Err(Problem::new(Kind::Rule, message).suggest(word, &["prefix", INTERFACE]))
        }
    }
}

/// A prefix or `any`; and a warning if bits behind its length had to be cleared.
pub(super) fn source(word: &str) -> Result<(Option<IpNet>, Option<Problem>), Problem> {
    if word == ANY {
        return Ok((None, None));
    }
    match prefix::parse(word) {
        Ok((net, _)) if let Some(v4) = prefix::unmapped(net) => {
            let message = format!("`{word}`: no packet has an IPv4-mapped address");
            Err(Problem::new(Kind::Prefix, message).help(format!("write `{v4}`")))
        }
        Ok((net, true)) => Ok((Some(net), None)),
        Ok((net, false)) => {
            let message = format!("`{word}` has bits set behind its length; it is taken as {net}");
            Ok((Some(net), Some(Problem::new(Kind::HostBits, message).help(format!("write `{net}`")))))
        }
        Err(help) => Err(Problem::new(Kind::Prefix, format!("`{}` is no prefix", shown(word))).help(help)),
    }
}

/// Checks that a word may be the name of an interface.
pub(super) fn interface(word: &str) -> Result<(), Problem> {
    if is_name(word) {
        return Ok(());
    }
    let message = format!("`{}` is no interface's name", shown(word));
    let help = format!(
        "a name has 1 to {LONGEST_NAME} of the characters a-z, 0-9, `.`, `_` and `-`, and begins with a letter or digit"
    );
    Err(Problem::new(Kind::Rule, message).help(help))
}

/// That all interfaces and some are named at once.
pub(super) fn any_among_others() -> Problem {
    Problem::new(Kind::Rule, format!("`{ANY}` stands for all interfaces, so it stands alone"))
}

/// That a rule is about nothing.
pub(super) fn no_interfaces() -> Problem {
    Problem::new(Kind::Rule, "a rule names at least one interface").help(format!("`{ANY}` stands for all"))
}

/// That an interface is named twice.
pub(super) fn repeated(name: &str) -> Problem {
    Problem::new(Kind::Repeated, format!("the rule names `{name}` twice"))
}

/// Checks the operator's comment on a rule.
pub(super) fn comment(text: &str) -> Result<Box<str>, Problem> {
    if text.len() > LONGEST_COMMENT {
        let message = format!("a comment has at most {LONGEST_COMMENT} octets, not {}", text.len());
        return Err(Problem::new(Kind::Rule, message));
    }
    if text.chars().any(char::is_control) {
        return Err(Problem::new(Kind::Rule, "a comment has no control characters"));
    }
    Ok(text.into())
}
