//! Changes of single objects of a model in force, as texts: no file of the configuration is read again.

use std::path::Path;

use weir_plane::model::Gateway;

use super::Loaded;
use super::declare::Declared;
use super::diagnostic::{Code, Diagnostic};
use super::load::Loader;
use super::over::places;
use super::overlay::{OverSa, OverSpd};
pub(crate) use super::resolve::exempt::too_many_exemptions;
use super::resolve::live::{self, NewRule};
pub(crate) use super::resolve::nat::{
    At as NatAt, Misplaced, Taken, Twice, another_map, before_spd, mapped_twice, misplaced,
};
use super::source::{At, Disk, SourceId, Sources, Span};
use crate::rules::{Names, spd};

/// The settings of a model that its SAs depend on, as if they were declared.
fn settings(declared: &mut Declared, gateway: &Gateway) {
    let span = Span { source: SourceId(0), start: 0, end: 0 };
    declared.settings.ipsec_state.clone_from(&gateway.ipsec.state);
    declared.settings.insecure = gateway.ipsec.insecure;
    declared.settings.engine = gateway.ipsec.engine.map(|value| At { value, span });
}

/// Puts a pair of SAs into a model: in the place of the pair of its name, or behind all others. Key files are relative to `folder`.
/// Returns the findings; with an error among them, the model stays as it is.
pub(crate) fn put_sa(gateway: &mut Gateway, folder: &Path, over: &OverSa) -> Loaded {
    let mut loader = Loader::new(&Disk);
    loader.text(&over.place(), over.text.clone().into_bytes(), folder.to_owned(), false, 0);
    settings(&mut loader.declared, gateway);
    loader.key_files();
    let Loader { mut diagnostics, declared, sources, .. } = loader;
    live::put_sa(gateway, &declared, &sources, &mut diagnostics);
    // The engine has no place in these texts.
    diagnostics.iter_mut().for_each(|found| found.related.retain(|label| label.span.start < label.span.end));
    Loaded::found(diagnostics, sources)
}

/// Puts the rules of an SPD into a model. Returns the findings, as [`put_sa`] does.
pub(crate) fn put_rules(gateway: &mut Gateway, over: &OverSpd) -> Loaded {
    let (mut sources, mut diagnostics, mut declared) = (Sources::default(), Vec::new(), Declared::default());
    settings(&mut declared, gateway);
    let mut names = Names::default();
    let mut rules = Vec::with_capacity(over.rules.len());
    for (rule, place) in over.rules.iter().zip(places(over, &mut sources)) {
        match place.map(|span| (span, spd::parse(&rule.text, &mut names))) {
            None => rules.push(NewRule::Kept(rule.text.clone())),
            Some((span, Ok((value, _)))) => rules.push(NewRule::Read(Box::new(At { value, span }))),
            Some((span, Err(_))) => {
                diagnostics.push(Diagnostic::error(Code::LiveRules, span, "the rule cannot be read any more"));
            }
        }
    }
    live::put_rules(gateway, over, rules, (&declared, &sources), &mut diagnostics);
    Loaded::found(diagnostics, sources)
}

/// Gives the tunnels of a model without an MTU of their own what is left. Returns whether the MTU of some tunnel is another one.
pub(crate) fn fit_tunnels(gateway: &mut Gateway) -> bool {
    super::resolve::fit_tunnels(gateway)
}
