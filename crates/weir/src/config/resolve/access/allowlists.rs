//! Allowlists of sources.

use std::collections::HashMap;

use ipnet::IpNet;
use weir_plane::model::{AllowedSources, Allowlist, Origin, VrfIndex};

use super::super::super::declare::access::{Allowlist as Declared, Sources};
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::Span;
use super::super::Resolver;
use crate::rules::prefix;

impl<'a> Resolver<'a> {
    /// Makes the allowlists of the model.
    pub(in super::super) fn allowlists(&mut self) -> Vec<Allowlist> {
        let declared = self.declared;
        declared.access.allowlists.iter().map(|list| self.allowlist(list)).collect()
    }

    fn allowlist(&mut self, declared: &'a Declared) -> Allowlist {
        let name = &declared.name;
        let sources = match &declared.sources {
            // Something is wrong, so there will be no gateway.
            None => AllowedSources::Prefixes([].into()),
            Some(Sources::Vrf(vrf)) => AllowedSources::Vrf(self.vrf(Some(vrf)).unwrap_or(VrfIndex(0))),
            Some(Sources::Prefixes { inline, files }) => {
                let total = inline.len() + files.iter().map(|file| file.prefixes.len()).sum::<usize>();
                let mut places: Vec<(IpNet, Span)> = Vec::with_capacity(total);
                places.extend(inline.iter().map(|prefix| (prefix.value, prefix.span)));
                for file in files {
                    let Some(id) = file.source else { continue };
                    if file.prefixes.is_empty() && !self.has_errors(id) {
                        let message = format!("`{}` has no prefixes", file.path.value);
                        self.report(Diagnostic::warning(Code::EmptyFile, file.path.span, message));
                    }
                    let source = self.sources.source(id);
                    places.extend(file.prefixes.iter().map(|line| {
                        let range = source.line_range(line.line);
                        (line.prefix, Span { source: id, start: range.start as u32, end: range.end as u32 })
                    }));
                }
                AllowedSources::Prefixes(self.once(declared, places).into())
            }
        };
        Allowlist { name: name.value.clone(), sources, origin: self.origin(name.span) }
    }

    /// The prefixes of a list, each once, and how many there may be of them.
    fn once(&mut self, declared: &Declared, places: Vec<(IpNet, Span)>) -> Vec<(IpNet, Origin)> {
        let mut first: HashMap<IpNet, Span> = HashMap::with_capacity(places.len());
        let mut prefixes = Vec::with_capacity(places.len());
        for (prefix, span) in places {
            if let Some(net) = prefix::unmapped(prefix) {
                let message = format!("`{prefix}`: no packet has an IPv4-mapped address");
                let found = Diagnostic::error(Code::InvalidPrefix, span, message);
                self.report(found.help(format!("write `{net}`")));
                continue;
            }
            match first.get(&prefix) {
                Some(&first) => {
                    let message = format!("{prefix} stands twice in the allowlist `{}`", declared.name.value);
                    let found = Diagnostic::warning(Code::DuplicatePrefix, span, message);
                    self.report(found.related(first, "first here"));
                }
                None => {
                    first.insert(prefix, span);
                    prefixes.push((prefix, self.origin(span)));
                }
            }
        }
        let limit = self.declared.settings.limits.allowed_prefixes;
        if prefixes.len() as u64 > u64::from(limit) {
            let name = &declared.name;
            let message = format!(
                "the allowlist `{}` has {} prefixes, more than the limit of {limit}",
                name.value,
                prefixes.len()
            );
            let found = Diagnostic::error(Code::LimitExceeded, name.span, message);
            self.report(match self.declared.settings.allowed_prefixes_span {
                Some(span) => found.related(span, "the limit"),
                None => found.help("raise `allowed-prefixes` under `[limits]`"),
            });
        }
        if prefixes.is_empty() && declared.sources.is_some() && self.is_read(declared) {
            let message =
                format!("the allowlist `{}` is empty: interfaces that use it drop all packets", declared.name.value);
            self.report(Diagnostic::warning(Code::NothingValid, declared.name.span, message));
        }
        prefixes
    }

    /// Whether all files of a list were read.
    fn is_read(&self, declared: &Declared) -> bool {
        matches!(&declared.sources, Some(Sources::Prefixes { files, .. }) if files.iter().all(|file| file.source.is_some()))
    }
}
