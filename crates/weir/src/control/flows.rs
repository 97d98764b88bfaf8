//! Filters of sessions: rules without an action, as text.

use weir_plane::engine::{FlowFilter, FlowOrder};
use weir_plane::model::{self, Origin};

use super::refusal::{Kind, Refusal};
use crate::rules::Finding;
use crate::rules::Names;
use crate::rules::acl::{self, Vocabulary};

/// The action that makes a filter a rule.
const ACTION: &str = "permit ";

/// Reads a filter: the protocol, addresses and conditions of a rule. What it leaves out at the end means any.
///
/// # Errors
/// When the filter is no rule, or names what the gateway does not have.
pub(super) fn filter(gateway: &model::Gateway, text: Option<&str>) -> Result<FlowFilter, Box<Refusal>> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(FlowFilter::default()) };
    let rule = parse_filter(text).map_err(|message| Box::new(Refusal::new(Kind::BadRequest, message)))?;
    let written = rule.to_string();
    let rule = rule.model(&Vocabulary::of(gateway), Origin::default()).map_err(|all| {
        let finding = all.into_iter().next().map(|first| first.finding(&written));
        let message = finding.map_or_else(|| "a name is not known".to_owned(), |finding| finding.message);
        Box::new(Refusal::new(Kind::BadRequest, format!("the filter is not understood: {message}")))
    })?;
    Ok(FlowFilter { rule: Some(rule), ..FlowFilter::default() })
}

/// Reads a filter as a rule that permits.
///
/// # Errors
/// When the filter is no rule: a sentence that names the place.
pub(crate) fn parse_filter(text: &str) -> Result<acl::Rule, String> {
    let text = text.trim();
    let first = text.split_whitespace().next().unwrap_or_default();
    if ["permit", "permit+reflect", "deny", "reject", "reject+reset", "reject+icmp"].contains(&first) {
        return Err(format!("the filter is not understood: leave out the action `{first}`: a filter has none"));
    }
    let wrong = |finding: &Finding| {
        // The action was not written; an error at the end is one of the filter's end.
        let column = (finding.column as usize).saturating_sub(ACTION.len()).clamp(1, text.chars().count() + 1);
        let help = finding.help.as_ref().map_or_else(String::new, |help| format!(" ({help})"));
        format!("the filter is not understood: column {column}: {}{help}", finding.message)
    };
    let rule = format!("{ACTION}{}", completed(text));
    let (rule, _) = acl::parse(&rule, &mut Names::default()).map_err(|findings| wrong(&findings.shown()[0]))?;
    if rule.log || rule.limit.is_some() || rule.flow.is_some() {
        let message =
            "a filter has no `log`, `limit`, `flow` and `no-flow`: it only says which packets or sessions are meant";
        return Err(message.to_owned());
    }
    Ok(rule)
}

/// A filter with the protocol and the endpoints that it leaves out.
fn completed(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = |word: &str| words.iter().position(|own| *own == word);
    let protocol = if at("from") == Some(0) || at("to") == Some(0) { "ip " } else { "" };
    match (at("from"), at("to")) {
        (Some(_), Some(_)) => format!("{protocol}{text}"),
        (Some(_), None) => format!("{protocol}{text} to any"),
        (None, Some(to)) => {
            let (before, after) = words.split_at(to);
            format!("{protocol}{} from any {}", before.join(" "), after.join(" ")).trim_start().replace("  ", " ")
        }
        (None, None) => format!("{text} from any to any"),
    }
}

/// The order of a listing that has this name.
///
/// # Errors
/// When there is none.
pub(super) fn order(name: Option<&str>) -> Result<FlowOrder, Box<Refusal>> {
    Ok(match name {
        None | Some("age") => FlowOrder::Age,
        Some("idle") => FlowOrder::Idle,
        Some("packets") => FlowOrder::Packets,
        Some("bytes") => FlowOrder::Bytes,
        Some(other) => {
            let message = format!("sessions are not sorted by `{other}`: there are age, idle, packets and bytes");
            return Err(Box::new(Refusal::new(Kind::BadRequest, message)));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{completed, parse_filter};

    #[test]
    fn a_filter_with_an_action_is_refused_with_what_to_do() {
        let refused = parse_filter("permit tcp from any to any").expect_err("an action");
        assert_eq!(refused, "the filter is not understood: leave out the action `permit`: a filter has none");
        assert!(parse_filter("tcp from any to any flow").expect_err("flow").contains("which packets or sessions"));
    }

    #[test]
    fn filters_leave_out_what_may_be_anything() {
        for (filter, rule) in [
            ("tcp", "tcp from any to any"),
            ("tcp from 192.0.2.1", "tcp from 192.0.2.1 to any"),
            ("tcp to any port 443", "tcp from any to any port 443"),
            ("to 192.0.2.1", "ip from any to 192.0.2.1"),
            ("from 192.0.2.1 to any", "ip from 192.0.2.1 to any"),
            ("udp from any port 53 to any", "udp from any port 53 to any"),
        ] {
            assert_eq!(completed(filter), rule);
        }
    }
}
