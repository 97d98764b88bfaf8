//! Rules as the gateway prints them, so that equal rules have equal texts. What cannot be read stays as it is.

use super::lines::without_comment;
use crate::rules::binding::Binding;
use crate::rules::{self, acl, nat as nats, prefix as prefixes, spd as spds, steer as steers};

/// Prints a rule of an object of this kind.
pub(super) fn of(kind: &str, rule: String) -> String {
    match kind {
        "acl" => acl(&rule),
        "nat" => nat(&rule),
        "mac-ip" => binding(&rule),
        "spd" => spd(&rule),
        "steer" => steer(&rule),
        "allowlist" => prefix(&rule),
        "sav" => sav(&rule),
        _ => rule,
    }
}

fn sav(rule: &str) -> String {
    rule.parse::<rules::Rule>().map_or_else(|_| without_comment(rule).to_owned(), |rule| rule.to_string())
}

pub(super) fn acl(rule: &str) -> String {
    rule.parse::<acl::Rule>().map_or_else(|_| rule.to_owned(), |rule| rule.canonical().to_string())
}

pub(super) fn nat(rule: &str) -> String {
    rule.parse::<nats::Rule>().map_or_else(|_| rule.to_owned(), |rule| rule.to_string())
}

pub(super) fn binding(rule: &str) -> String {
    rule.parse::<Binding>().map_or_else(|_| rule.to_owned(), |rule| rule.to_string())
}

/// Prints a prefix as the gateway does. In a file, a comment may stand behind it.
pub(super) fn prefix(text: &str) -> String {
    let word = without_comment(text);
    prefixes::parse(word).map_or_else(|_| word.to_owned(), |(net, _)| net.to_string())
}

pub(super) fn steer(rule: &str) -> String {
    rule.parse::<steers::Rule>().map_or_else(|_| rule.to_owned(), |rule| rule.to_string())
}

pub(super) fn spd(rule: &str) -> String {
    rule.parse::<spds::Rule>().map_or_else(|_| rule.to_owned(), |rule| rule.to_string())
}
