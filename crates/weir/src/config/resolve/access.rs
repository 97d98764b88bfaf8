//! Access: lists of rules, groups, allowlists and bindings; which interfaces have them, and what they say.

mod allowlists;
mod bindings;
mod classify;
mod groups;
mod learned;
mod lists;
mod nat;
pub(super) mod nat_addresses;
pub(super) mod nat_inwards;
mod nat_limits;
pub(super) mod nat_live;
mod nat_overlap;
mod nat_routed;
pub(super) mod nat_spd;
mod nat_targets;
mod needless;
mod spd;
mod steer;
mod twice;

use std::collections::HashMap;

use weir_plane::model::{
    AclIndex, AllowlistIndex, BindingsIndex, Ethertypes, NatIndex, PerFamily, SpdIndex, SteerIndex,
};

use super::super::declare::Interface;
use super::super::declare::access::{self, OfInterface};
use super::super::declare::rules::diagnostic;
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::{At, Span};
use super::Resolver;
use super::known::Named;
use crate::rules::acl::Wrong;
pub(super) use needless::needless;
pub(super) use twice::Advice;

/// The kinds of objects that have names here.
#[derive(Clone, Copy)]
enum Kind {
    List,
    Allowlist,
    Bindings,
    Group,
    Classify,
    Nat,
    Spd,
    Steer,
}

impl Kind {
    /// One of them, more of them, the key that they stand under, and what is said if one is not there.
    fn words(self) -> (&'static str, &'static str, &'static str, Code) {
        match self {
            Kind::List => ("access list", "access lists", "acl", Code::UnknownList),
            Kind::Allowlist => ("allowlist", "allowlists", "allowlist", Code::UnknownAllowlist),
            Kind::Bindings => ("list of bindings", "lists of bindings", "mac-ip", Code::UnknownBindings),
            Kind::Group => ("group", "groups", "group", Code::UnknownGroup),
            Kind::Classify => ("classifier table", "classifier tables", "classify", Code::UnknownClassify),
            Kind::Nat => ("list of NAT rules", "lists of NAT rules", "nat", Code::UnknownNat),
            Kind::Spd => ("SPD", "SPDs", "spd", Code::UnknownSpd),
            Kind::Steer => ("list of steer rules", "lists of steer rules", "steer", Code::UnknownSteer),
        }
    }
}

impl<'a> Resolver<'a> {
    /// Gives lists, allowlists and bindings their indices.
    pub(super) fn access_names(&mut self) {
        let access = &self.declared.access;
        self.access.lists = self.named(Kind::List, access.lists.iter().map(|list| &list.name).collect());
        let allowlists = access.allowlists.iter().map(|list| &list.name).collect();
        self.access.allowlists = self.named(Kind::Allowlist, allowlists);
        let bindings = access.bindings.iter().map(|bindings| &bindings.name).collect();
        self.access.bindings = self.named(Kind::Bindings, bindings);
        let groups = access.groups.iter().map(|group| &group.name).collect();
        self.access.groups = self.named(Kind::Group, groups);
        self.access.classify = self.named(Kind::Classify, access.classify.iter().map(|table| &table.name).collect());
        self.access.nat = self.named(Kind::Nat, access.nat.iter().map(|list| &list.name).collect());
        self.access.spd = self.named(Kind::Spd, access.spd.iter().map(|spd| &spd.name).collect());
        self.access.steer = self.named(Kind::Steer, access.steer.iter().map(|list| &list.name).collect());
    }

    fn named(&mut self, kind: Kind, names: Vec<&'a At<String>>) -> Named<'a> {
        let (_, plural, ..) = kind.words();
        let mut named = Named { by_name: HashMap::with_capacity(names.len()), used: vec![false; names.len()] };
        for (at, name) in names.iter().enumerate() {
            if let Some(&first) = named.by_name.get(name.value.as_str()) {
                let message = format!("there are two {plural} `{}`", name.value);
                let found = Diagnostic::error(Code::DuplicateName, name.span, message);
                self.report(found.related(names[usize::from(first)].span, "first here"));
                continue;
            }
            let Ok(index) = u16::try_from(at) else {
                let message = format!("there are more than {} {plural}", u32::from(u16::MAX) + 1);
                self.report(Diagnostic::error(Code::LimitExceeded, name.span, message));
                break;
            };
            named.by_name.insert(&name.value, index);
        }
        named
    }

    /// Resolves the lists of an interface.
    pub(super) fn access_of(&mut self, interface: &'a Interface) -> weir_plane::model::Access {
        let of = &interface.access;
        self.without_frames(interface);
        self.missing_ethertypes(interface);
        let lost = &self.declared.access;
        let (lists, allowlists, bindings) = (lost.lost_lists, lost.lost_allowlists, lost.lost_bindings);
        let acl = |resolver: &mut Self, names| -> Vec<AclIndex> {
            resolver.all_of(Kind::List, names, lists).into_iter().map(AclIndex).collect()
        };
        let allow = |resolver: &mut Self, names| -> Vec<AllowlistIndex> {
            resolver.all_of(Kind::Allowlist, names, allowlists).into_iter().map(AllowlistIndex).collect()
        };
        let both = of.allow.v4.iter().map(|name| name.span).eq(of.allow.v6.iter().map(|name| name.span));
        let v4 = allow(self, &of.allow.v4);
        // What stands for both families is looked at once.
        let v6 = if both { v4.clone() } else { allow(self, &of.allow.v6) };
        weir_plane::model::Access {
            acl_in: acl(self, &of.acl_in),
            acl_out: acl(self, &of.acl_out),
            live_lists: [None, None],
            allow: PerFamily { v4, v6 },
            bindings: of
                .bindings
                .as_ref()
                .and_then(|name| self.one_of(Kind::Bindings, name, bindings))
                .map(BindingsIndex),
            dhcp_trusted: of.dhcp_trusted.is_some(),
            slaac_trusted: of.slaac_trusted.is_some(),
            classify_in: self.classify_of(interface, false),
            classify_out: self.classify_of(interface, true),
            ethertypes_in: self.ethertypes(of.ethertypes_in.as_ref()),
            ethertypes_out: self.ethertypes(of.ethertypes_out.as_ref()),
        }
    }

    /// The rules that translate at an interface.
    pub(super) fn nat_of(&mut self, interface: &'a Interface) -> Option<NatIndex> {
        let lost = self.declared.access.lost_nat;
        self.one_of(Kind::Nat, interface.nat.as_ref()?, lost).map(NatIndex)
    }

    /// The SPD of an interface.
    pub(super) fn spd_of(&mut self, interface: &'a Interface) -> Option<SpdIndex> {
        let lost = self.declared.access.lost_spd;
        self.one_of(Kind::Spd, interface.spd.as_ref()?, lost).map(SpdIndex)
    }

    /// The steer rules of an interface.
    pub(super) fn steer_of(&mut self, interface: &'a Interface) -> Option<SteerIndex> {
        let lost = self.declared.access.lost_steer;
        self.one_of(Kind::Steer, interface.steer.as_ref()?, lost).map(SteerIndex)
    }

    fn ethertypes(&mut self, declared: Option<&access::Ethertypes>) -> Option<Ethertypes> {
        let (types, span) = declared?;
        Some(Ethertypes { types: types.clone(), origin: self.origin(*span) })
    }

    /// Resolves names; each may occur once.
    fn all_of(&mut self, kind: Kind, names: &'a [At<String>], lost: bool) -> Vec<u16> {
        let mut first: HashMap<&str, &At<String>> = HashMap::new();
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            if let Some(first) = first.get(name.value.as_str()) {
                let message = format!("the {} `{}` stands here twice", kind.words().0, name.value);
                let twice = Diagnostic::error(Code::RepeatedList, name.span, message);
                self.report(twice.related(first.span, "first here"));
                continue;
            }
            first.insert(&name.value, name);
            found.extend(self.one_of(kind, name, lost));
        }
        found
    }

    fn one_of(&mut self, kind: Kind, name: &At<String>, lost: bool) -> Option<u16> {
        let named = match kind {
            Kind::List => &mut self.access.lists,
            Kind::Allowlist => &mut self.access.allowlists,
            Kind::Bindings => &mut self.access.bindings,
            Kind::Group => &mut self.access.groups,
            Kind::Classify => &mut self.access.classify,
            Kind::Nat => &mut self.access.nat,
            Kind::Spd => &mut self.access.spd,
            Kind::Steer => &mut self.access.steer,
        };
        if let Some(&index) = named.by_name.get(name.value.as_str()) {
            named.used[usize::from(index)] = true;
            return Some(index);
        }
        if !lost {
            let (one, _, key, code) = kind.words();
            let unknown = Diagnostic::error(code, name.span, format!("there is no {one} `{}`", name.value));
            let unknown = unknown.suggest(&name.value, named.by_name.keys());
            let help = unknown.help.clone();
            let declare = || format!("declare it under `[{key}.{}]`", name.value);
            self.report(unknown.help(help.unwrap_or_else(declare)));
        }
        None
    }

    /// Refuses keys about frames on interfaces whose packets have none.
    fn without_frames(&mut self, interface: &Interface) {
        use weir_port::spec::PortSpec;
        let Some(super::super::declare::Kind::Port { port: Some(PortSpec::Tun(_)), .. }) = &interface.kind else {
            return;
        };
        let OfInterface { ethertypes_in, ethertypes_out, bindings, dhcp_trusted, slaac_trusted, .. } =
            &interface.access;
        let types = ethertypes_in.as_ref().or(ethertypes_out.as_ref()).map(|(_, span)| *span);
        let bindings = bindings.as_ref().map(|name| name.span);
        let keys = [
            ("ethertypes", types),
            ("mac-ip", bindings),
            ("dhcp-trusted", *dhcp_trusted),
            ("slaac-trusted", *slaac_trusted),
        ];
        for (key, span) in keys {
            if let Some(span) = span {
                let message = format!("`{key}` has no meaning on a tun device, whose packets have no Ethernet header");
                self.report(Diagnostic::error(Code::ConflictingKeys, span, message).help("make it a `tap`"));
            }
        }
    }

    /// Warns of an interface that keeps out what its neighbours are found by.
    fn missing_ethertypes(&mut self, interface: &Interface) {
        let has = |v4: bool| interface.addresses.iter().any(|address| address.value.addr().is_ipv4() == v4);
        for types in [&interface.access.ethertypes_in, &interface.access.ethertypes_out] {
            let Some((types, span)) = types else { continue };
            for (needed, is_needed, why) in [
                (0x0806, has(true), "without `arp` no neighbour of IPv4 is found on this interface"),
                (0x86dd, has(false), "without `ipv6` no neighbour of IPv6 is found on this interface"),
            ] {
                if is_needed && !types.contains(&needed) {
                    self.report(Diagnostic::warning(Code::MissingEthertype, *span, why));
                }
            }
        }
    }

    /// Warns of what nothing names.
    pub(super) fn unused_access(&mut self) {
        let access = &self.declared.access;
        let lists = access.lists.iter().map(|list| &list.name).zip(&self.access.lists.used);
        let lists = lists.map(|it| (it, "no interface names the access list", Code::UnusedList));
        let allowlists = access.allowlists.iter().map(|list| &list.name).zip(&self.access.allowlists.used);
        let allowlists = allowlists.map(|it| (it, "no interface names the allowlist", Code::UnusedAllowlist));
        let bindings = access.bindings.iter().map(|bindings| &bindings.name).zip(&self.access.bindings.used);
        let bindings = bindings.map(|it| (it, "no interface names the bindings", Code::UnusedBindings));
        let groups = access.groups.iter().map(|group| &group.name).zip(&self.access.groups.used);
        let groups = groups.map(|it| (it, "no rule names the group", Code::UnusedGroup));
        let classify = access.classify.iter().map(|table| &table.name).zip(&self.access.classify.used);
        let classify =
            classify.map(|it| (it, "no interface and no table names the classifier table", Code::UnusedClassify));
        let nat = access.nat.iter().map(|list| &list.name).zip(&self.access.nat.used);
        let nat = nat.map(|it| (it, "no interface names the NAT rules", Code::UnusedNat));
        let steer = access.steer.iter().map(|list| &list.name).zip(&self.access.steer.used);
        let steer = steer.map(|it| (it, "no interface names the steer rules", Code::UnusedSteer));
        let spds = access.spd.iter().map(|spd| &spd.name).zip(&self.access.spd.used);
        let (protecting, other): (Vec<_>, Vec<_>) = spds.partition(|(name, _)| self.protects(&name.value));
        let other = other.into_iter().map(|it| (it, "no interface names the SPD", Code::UnusedSpd));
        let all =
            lists.chain(allowlists).chain(bindings).chain(groups).chain(classify).chain(nat).chain(steer).chain(other);
        let unused = all.filter(|((_, used), ..)| !**used).map(|((name, _), message, code)| {
            Diagnostic::warning(code, name.span, format!("{message} `{}`", name.value))
        });
        let unprotected = protecting.into_iter().filter(|(_, used)| !**used).map(|(At { value: name, span }, _)| {
            let message =
                format!("no interface names the SPD `{name}`: traffic that it should protect leaves in clear");
            Diagnostic::warning(Code::UnusedSpd, *span, message)
                .help(format!("write `spd = \"{name}\"` in the `[[interface]]` by which the traffic leaves"))
        });
        let unused: Vec<_> = unused.chain(unprotected).collect();
        self.diagnostics.extend(unused);
    }

    /// An SPD has a rule that protects packets.
    fn protects(&self, name: &str) -> bool {
        let is_protect = |rule: &At<crate::rules::spd::Rule>| rule.value.action == crate::rules::spd::Action::Protect;
        let mut spds = self.declared.access.spd.iter();
        spds.any(|spd| spd.name.value == name && spd.rules.iter().any(is_protect))
    }

    /// Notes that rules name these groups.
    fn uses_groups<'g>(&mut self, groups: impl Iterator<Item = &'g str>) {
        for group in groups {
            if let Some(&at) = self.access.groups.by_name.get(group) {
                self.access.groups.used[usize::from(at)] = true;
            }
        }
    }

    /// The text of a rule without the quotes around it, and where it begins.
    fn rule_text(&self, span: Span) -> (String, u32) {
        let text = self.sources.source(span.source).text.get(span.range()).unwrap_or_default();
        let quotes: &[char] = &['"', '\''];
        let before = (text.len() - text.trim_start_matches(quotes).len()) as u32;
        (text.trim_matches(quotes).to_owned(), span.start + before)
    }

    /// Reports names of a rule that stand for nothing. `span` is that of the rule's text, with its quotes.
    fn report_wrong(&mut self, wrong: Vec<Wrong>, span: Span) {
        let (text, start) = self.rule_text(span);
        for wrong in wrong.into_iter().filter(|wrong| self.is_wrong(wrong)).collect::<Vec<_>>() {
            let finding = wrong.finding(&text);
            let place =
                Span { start: start + finding.range.start as u32, end: start + finding.range.end as u32, ..span };
            self.report(diagnostic(&finding, place));
        }
    }

    /// Whether something wrong with a name is worth saying: where declarations were lost, it may be one of theirs.
    pub(super) fn is_wrong(&self, wrong: &Wrong) -> bool {
        !(wrong.is_unknown_interface() && self.declared.lost_interfaces
            || wrong.is_unknown_group() && self.declared.access.lost_groups)
    }
}
