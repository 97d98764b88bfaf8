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
    let has = |word: &str| text.split_whitespace().any(|own| own == word);
    let rest = match (has("from"), has("to")) {
        (true, true) => "",
        (true, false) => " to any",
        (false, _) => " from any to any",
    };
    let rule = format!("{ACTION}{text}{rest}");
    let wrong = |finding: &Finding| {
        // The action was not written; an error at the end is one of the filter's end.
        let column = (finding.column as usize).saturating_sub(ACTION.len()).clamp(1, text.chars().count() + 1);
        let help = finding.help.as_ref().map_or_else(String::new, |help| format!(" ({help})"));
        let message = format!("the filter is not understood: column {column}: {}{help}", finding.message);
        Box::new(Refusal::new(Kind::BadRequest, message))
    };
    let (rule, _) = acl::parse(&rule, &mut Names::default()).map_err(|findings| wrong(&findings.shown()[0]))?;
    if rule.log || rule.limit.is_some() {
        let message = "a filter has no `log` and no `limit`: it only says which sessions are meant";
        return Err(Box::new(Refusal::new(Kind::BadRequest, message)));
    }
    let written = rule.to_string();
    let rule = rule.model(&Vocabulary::of(gateway), Origin::default()).map_err(|all| {
        let finding = all.into_iter().next().map(|first| first.finding(&written));
        let message = finding.map_or_else(|| "a name is not known".to_owned(), |finding| finding.message);
        Box::new(Refusal::new(Kind::BadRequest, format!("the filter is not understood: {message}")))
    })?;
    Ok(FlowFilter { rule: Some(rule) })
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
