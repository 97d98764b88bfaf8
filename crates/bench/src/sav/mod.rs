//! `weir bench sav`: what source address validation costs, as section 3 of draft-li-savnet-dataplane-performance-00 measures
//! it.
//!
//! All policies are measured in one gateway, with one forwarding table, one worker and one stream of packets; from one to
//! the next only the version of the root changes. So they differ by nothing but validation. Forwarding without validation
//! is one of the versions and has the same full tables.

pub mod accuracy;
mod actions;
mod background;
mod cost;
mod family;
mod flood;
mod network;
mod report;
mod traffic;
mod update;

use std::path::Path;

use weir_table::lpm::Prefix;

use crate::prefixes::Prefixes;
use crate::{Error, machine};
use family::Ip;

pub use actions::{ActionRow, Actions, OfFamily};
pub use background::{Background, BackgroundRow};
pub use cost::{Effort, Memory, Row, Scale};
pub use flood::{Deep, Flood, Floods};
pub use network::Way;
pub use report::Sav;
pub use update::{Latency, Updates};

impl Sav {
    /// Measures the draft's figures, or instead of them floods, updates or both, on a CPU, by default the last one that may
    /// be used. Source prefixes are read from a file of ADDRESS/LENGTH lines, or made.
    ///
    /// # Errors
    /// If the file cannot be read, there is no room, or packets do not go where they should.
    pub fn measure(
        prefixes: Option<&Path>,
        (floods, updates): (bool, bool),
        cpu: Option<usize>,
        effort: &Effort,
    ) -> Result<Sav, Error> {
        let made =
            || Prefixes { origin: "made with the lengths of the Internet's table".to_owned(), ..Default::default() };
        let prefixes = prefixes.map_or_else(|| Ok(made()), |path| Prefixes::read(path).map_err(Error::Prefixes))?;
        // First: its worker has a CPU of its own, and this thread another.
        let changes = if updates { self::updates(effort, &machine::cpus())? } else { Vec::new() };
        machine::pin(cpu)?;
        let mut report = Sav {
            tick_frequency: weir_base::tsc::frequency(),
            cpu: machine::cpu_name(),
            prefixes: prefixes.origin.clone(),
            turns: effort.turns,
            figure_8: Vec::new(),
            figure_9: Vec::new(),
            figure_10: Vec::new(),
            floods: if floods { Some(self::floods(effort)?) } else { None },
            updates: changes,
        };
        if !floods && !updates {
            report.figure_8 = mechanisms(&prefixes, effort)?;
            report.figure_9 = backgrounds(effort)?;
            report.figure_10 = scales(&prefixes, effort)?;
        }
        Ok(report)
    }
}

/// Figure 8: all mechanisms with 1,000 source prefixes, IPv6 first.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn mechanisms(real: &Prefixes, effort: &Effort) -> Result<Vec<Scale>, Error> {
    const WAYS: [Way; 8] = [
        Way::Acl,
        Way::UrpfStrict,
        Way::UrpfLoose,
        Way::TableMostSpecific,
        Way::UrpfFeasible,
        Way::TableAnyCovering,
        Way::CardsSerial,
        Way::CardsParallel,
    ];
    let draft = |way| match way {
        Way::Acl => Some(96.6),
        Way::UrpfStrict | Way::UrpfLoose => Some(94.4),
        Way::TableMostSpecific => Some(94.5),
        _ => None,
    };
    Ok(vec![
        cost::scale::<u128>(1000, &WAYS, draft, u128::of(real), effort)?,
        cost::scale::<u32>(1000, &WAYS, draft, u32::of(real), effort)?,
    ])
}

/// Figure 10: tables, and strict uRPF beside them, with 1,000 to 1,000,000 source prefixes, IPv6 first.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn scales(real: &Prefixes, effort: &Effort) -> Result<Vec<Scale>, Error> {
    fn family<K: Ip>(real: &[Prefix<K>], effort: &Effort) -> Result<Vec<Scale>, Error> {
        const WAYS: [Way; 6] = [
            Way::CardsSerial,
            Way::CardsParallel,
            Way::TableAnyCovering,
            Way::TableMostSpecific,
            Way::TableHits,
            Way::UrpfStrict,
        ];
        let counts = [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|&count| count <= effort.prefixes);
        counts
            .map(|count| {
                let drafts = |way| matches!(way, Way::CardsSerial | Way::CardsParallel) && count <= 100_000;
                cost::scale::<K>(count, &WAYS, |way| drafts(way).then_some(94.5), real, effort)
            })
            .collect()
    }
    let mut all = family(u128::of(real), effort)?;
    all.extend(family(u32::of(real), effort)?);
    Ok(all)
}

pub use actions::measure as actions;
pub use background::measure as backgrounds;
pub use flood::measure as floods;
pub use update::measure as updates;

#[cfg(test)]
mod tests {
    use super::network::{OUTPUTS, Policy};
    use super::*;
    use crate::report::Report as _;
    use crate::turns::Outcome;
    use weir_base::random::Random;

    const LITTLE: Effort = Effort { turns: 1, windows: 1, sources: 2000, prefixes: 2000 };

    #[test]
    fn every_way_lets_all_valid_packets_pass() {
        // A packet that goes anywhere else is an error.
        let v4 = cost::scale::<u32>(500, &Way::ALL, |_| None, &[], &LITTLE).unwrap();
        let v6 = cost::scale::<u128>(500, &Way::ALL, |_| None, &[], &LITTLE).unwrap();
        for scale in [v4, v6] {
            assert_eq!((scale.prefixes, scale.sources, scale.rows.len()), (500, 2000, Way::ALL.len()));
            for row in &scale.rows {
                assert!(row.node.median > 0.0 && row.rate > 0.0, "{row:?}");
                let has_tables = !matches!(row.way, Way::UrpfStrict | Way::UrpfLoose | Way::UrpfFeasible);
                assert_eq!(row.memory.is_some_and(|memory| memory.lookup > 0.0), has_tables, "{row:?}");
                assert_eq!(row.memory.is_some_and(|memory| memory.counters > 0.0), row.way == Way::TableHits);
            }
        }
    }

    #[test]
    fn packets_that_go_elsewhere_are_an_error() {
        let mut random = Random::from_seed(1);
        let prefixes = traffic::prefixes::<u128>(100, &[], &mut random);
        let sources = traffic::sources(&prefixes, 1000, &mut random);
        let policy = Policy { interfaces: vec![OUTPUTS.to_vec()], ..Policy::of(Way::Acl) };
        let policies = [policy];
        let mut all = |outcome| {
            let mut run = cost::run(&prefixes, &policies, outcome, &sources, &mut random).unwrap();
            cost::turns(&mut run, &LITTLE)
        };
        assert!(all(Outcome::Dropped).is_ok());
        let all = all(Outcome::Forwarded);
        let expected = u64::from(u16::MAX / 4 + 1);
        assert!(
            matches!(all, Err(Error::Packets { received, dropped, transmitted: 0, .. })
                if (received, dropped) == (expected, expected)),
            "{:?}",
            all.err()
        );
    }

    #[test]
    fn floods_are_dropped_and_nesting_changes_no_verdict() {
        let floods = super::floods(&LITTLE).unwrap();
        assert_eq!((floods.floods.len(), floods.deep.len()), (4, 4));
        assert!(floods.floods.iter().all(|flood| flood.rate > 0.0 && flood.legitimate_rate > 0.0));
        assert_eq!(floods.deep.iter().map(|deep| deep.depth).collect::<Vec<_>>(), [40, 40, 21, 21]);
    }

    #[test]
    fn lists_beside_validation_are_asked_and_let_all_pass() {
        // A packet that goes anywhere else, or by another node, is an error.
        let all = backgrounds(&LITTLE).unwrap();
        assert_eq!(all.iter().map(|one| one.family.as_str()).collect::<Vec<_>>(), ["ipv6", "ipv4"]);
        for one in &all {
            assert_eq!((one.prefixes, one.rules, one.rows.len()), (1000, 1000, 2));
            assert!(one.node.median > 0.0 && one.with_rules.median > 0.0, "{one:?}");
        }
    }

    #[test]
    fn changes_lose_no_packet_and_are_seen() {
        let cpus = weir_base::affinity::allowed().unwrap();
        // Where others want the CPU, the worker may not get it for as long as a little window lasts: then there is another try.
        let mut tries = std::iter::repeat_with(|| super::updates(&LITTLE, &cpus).unwrap()).take(20);
        let goes_on = |all: &Vec<update::Updates>| all.iter().all(|updates| updates.changing.median > 0.0);
        let updates = tries.find(goes_on).expect("packets pass while tables change");
        assert_eq!(updates.iter().map(|updates| updates.family.as_str()).collect::<Vec<_>>(), ["ipv6", "ipv4"]);
        for updates in &updates {
            assert!(updates.rate.median > 0.0 && updates.provenance > 0.0);
            assert_eq!(updates.single.count, 50);
            assert!(updates.single.p50 <= updates.single.p99 && updates.single.p99 <= updates.single.most);
        }
    }

    #[test]
    fn the_report_reads_back_and_says_what_was_missed() {
        let real = Prefixes::default();
        let figure_8 = mechanisms(&real, &LITTLE).unwrap();
        let mut report = Sav {
            tick_frequency: 1e9,
            cpu: "a CPU".to_owned(),
            prefixes: "made".to_owned(),
            turns: 1,
            figure_8,
            figure_9: backgrounds(&LITTLE).unwrap(),
            figure_10: Vec::new(),
            floods: None,
            updates: Vec::new(),
        };
        let again: Sav = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(again, report);
        report.figure_10 = scales(&real, &Effort { prefixes: 1000, ..LITTLE }).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let plots = report.plot(directory.path()).unwrap();
        assert_eq!(plots.len(), 4);
        assert!(plots.iter().all(|plot| std::fs::read_to_string(plot).unwrap().contains("</svg>")));
        let row = &mut report.figure_8[0].rows[0];
        row.added_target = Some(crate::report::figure::Target::at_most(8.0, 9.0));
        row.ratio_target = Some(crate::report::figure::Target::at_least(86.0, 87.0));
        let text = report.text();
        let line = text.lines().find(|line| line.starts_with("acl")).unwrap();
        assert!(text.contains("Figure 9, 1,000 access rules") && text.contains("1000 rules"), "{text}");
        assert!(line.contains("96.6%") && line.contains("≥ 86 ") && line.contains("≤ 8 missed"), "{line}");
    }
}
