//! `weir bench acl`: what access lists and allowlists cost a packet.
//!
//! Forwarding with and without them as the guide to access lists on VPP measures it ([`Guide`]); lookups in rule sets of many
//! sizes, beside rte_acl and beside the node that makes them ([`SetCost`]); the worst that sets and packets can do ([`Worst`]);
//! and rules that come and go beside lookups ([`Updates`]).

mod effort;
mod guide;
mod lookup;
mod packet;
mod report;
mod running;
mod sets;
mod text;
mod update;
mod worst;

use std::path::Path;

use crate::Error;
use crate::alike::Alike;
use crate::machine::{self, pin_first};

use packet::Ip;
use sets::Set;

pub use effort::Effort;
pub use guide::{Guide, GuideNode, GuideRow, Theirs};
pub use lookup::{PeerCost, SetCost, TrafficCost};
pub use report::Acl;
pub use running::Running;
pub use update::{Times, Updates};
pub use worst::{Worst, WorstRow};

impl Acl {
    /// Measures rule sets, the guide's table and the worst case on a CPU, by default the last one that may be used; or, for
    /// `updates`, changes beside lookups. `classbench` is a directory of further rule sets.
    ///
    /// # Errors
    /// If a set cannot be read, a peer cannot be run or disagrees, there is no room, or packets do not go where they should.
    pub fn measure(
        classbench: Option<&Path>,
        updates: bool,
        cpu: Option<usize>,
        effort: &Effort,
    ) -> Result<Acl, Error> {
        let allowed = machine::cpus();
        let mut report = Acl {
            tick_frequency: weir_base::tsc::frequency(),
            cpu: machine::cpu_name(),
            turns: effort.turns,
            repeats: effort.repeats,
            ..Acl::default()
        };
        if updates {
            // Lookups have a CPU of their own, and this thread another.
            report.updates = self::updates(classbench, effort, &allowed)?;
            report.running = running(effort, &allowed)?;
        } else {
            machine::pin(cpu)?;
            report.sets = rule_sets(classbench, effort)?;
            report.guide = guides(effort)?;
            report.worst = worst_cases(effort)?;
        }
        Ok(report)
    }
}

/// The guide's table, IPv4 first.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn guides(effort: &Effort) -> Result<Vec<Guide>, Error> {
    Ok(vec![guide::measure::<u32>(effort)?, guide::measure::<u128>(effort)?])
}

/// Rule sets: made ones of both families with 1,000 to 100,000 rules, and those in files of ClassBench, if there is a directory
/// of these.
///
/// # Errors
/// If files cannot be read, there is no room, packets do not go where they should, or a peer cannot be run or
/// disagrees.
pub fn rule_sets(classbench: Option<&Path>, effort: &Effort) -> Result<Vec<SetCost>, Error> {
    fn family<K: Ip>(effort: &Effort) -> Result<Vec<SetCost>, Error> {
        let sizes = [1_000, 10_000, 50_000, 100_000].into_iter().filter(|&rules| rules <= effort.rules);
        let sets = sizes.flat_map(|rules| Alike::ALL.map(|kind| sets::made::<K>(kind, rules, 1)));
        sets.map(|set| lookup::measure(&set, effort)).collect()
    }
    // Read first: a mistake in them should not cost the time of the rest.
    let files = classbench.map(sets::read).transpose()?.unwrap_or_default();
    let mut all: Vec<SetCost> = files.iter().map(|set| lookup::measure(set, effort)).collect::<Result<_, _>>()?;
    all.extend(family::<u32>(effort)?);
    all.extend(family::<u128>(effort)?);
    Ok(all)
}

/// Sets that are made to be hard, and packets that are chosen to be slow.
///
/// # Errors
/// When there is no room.
pub fn worst_cases(effort: &Effort) -> Result<Vec<Worst>, Error> {
    let mut all = Vec::new();
    for rules in [1_000, 10_000, 100_000, 500_000].into_iter().filter(|&rules| rules <= effort.worst_rules) {
        all.push(worst::measure::<u32>(rules, effort)?);
        all.push(worst::measure::<u128>(rules, effort)?);
    }
    Ok(all)
}

/// Rules that come and go beside lookups, which run on the last of `cpus`: in sets of files, if there is a directory of these,
/// and in made ones.
///
/// # Errors
/// If files cannot be read, or there is no room.
pub fn updates(classbench: Option<&Path>, effort: &Effort, cpus: &[usize]) -> Result<Vec<Updates>, Error> {
    fn family<K: Ip>(effort: &Effort, cpus: &[usize]) -> Result<Vec<Updates>, Error> {
        let sizes = [1_000, 10_000, 50_000].into_iter().filter(|&rules| rules <= effort.rules);
        let sets = sizes.flat_map(|rules| Alike::ALL.map(|kind| sets::made::<K>(kind, rules, 1)));
        sets.map(|set| update::measure(&set, effort, cpus)).collect()
    }
    let files: Vec<Set<u32>> = classbench.map(sets::read).transpose()?.unwrap_or_default();
    pin_first(cpus);
    let mut all: Vec<Updates> = files.iter().map(|set| update::measure(set, effort, cpus)).collect::<Result<_, _>>()?;
    all.extend(family::<u32>(effort, cpus)?);
    all.extend(family::<u128>(effort, cpus)?);
    Ok(all)
}

/// Rules that come and go in gateways that run, whose worker has the last of `cpus`: made sets of both families.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn running(effort: &Effort, cpus: &[usize]) -> Result<Vec<Running>, Error> {
    fn family<K: Ip>(effort: &Effort, cpus: &[usize]) -> Result<Vec<Running>, Error> {
        let sizes = [1_000, 10_000, 50_000].into_iter().filter(|&rules| rules <= effort.rules);
        sizes.map(|rules| running::measure(&sets::made::<K>(Alike::Access, rules, 1), effort, cpus)).collect()
    }
    pin_first(cpus);
    let mut all = family::<u32>(effort, cpus)?;
    all.extend(family::<u128>(effort, cpus)?);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::time::Duration;

    use super::*;
    use crate::report::Report as _;

    fn little() -> Effort {
        Effort {
            turns: 1,
            windows: 1,
            packets: 1024,
            repeats: 2,
            rules: 1000,
            worst_rules: 1000,
            candidates: 256,
            adds: 300,
            pause: Duration::from_millis(1),
            peers: None,
        }
    }

    #[test]
    fn every_case_of_the_guide_asks_all_packets_and_lets_them_pass() {
        // A packet that goes anywhere else, or by another node, is an error.
        let guides = guides(&little()).unwrap();
        assert_eq!(guides.iter().map(|guide| guide.family.as_str()).collect::<Vec<_>>(), ["ipv4", "ipv6"]);
        for guide in &guides {
            assert_eq!(guide.rows.len(), 7);
            assert!(guide.rows.iter().all(|row| row.ticks.median > 0.0 && row.rate > 0.0), "{guide:?}");
            assert_eq!(guide.rows.iter().filter(|row| row.target.is_some()).count(), 2);
            let with_theirs = guide.rows.iter().filter(|row| row.theirs.is_some()).count();
            assert_eq!(with_theirs, if guide.family == "ipv4" { 5 } else { 0 });
            assert!(guide.nodes.iter().all(|node| node.ticks.median > 0.0));
        }
    }

    #[test]
    fn every_set_is_looked_up_alone_and_in_the_graph() {
        let directory = tempfile::tempdir().unwrap();
        let set = sets::made::<u32>(Alike::Chain, 200, 5);
        std::fs::write(directory.path().join("chain"), text::text(&set.rules)).unwrap();
        let sets = rule_sets(Some(directory.path()), &little()).unwrap();
        let named = |set: &SetCost| format!("{} {} {}", set.family, set.name, set.rules);
        let names: Vec<String> = sets.iter().map(named).collect();
        assert_eq!(names[..3], ["ipv4 chain, a tenth 20", "ipv4 chain 200", "ipv4 made-access 1000"]);
        assert_eq!(names.len(), 2 + 6);
        for set in &sets {
            assert_eq!(set.traffic.iter().map(|traffic| &*traffic.traffic).collect::<Vec<_>>(), ["spread", "local"]);
            assert!(set.octets > 0.0 && set.load_ms > 0.0 && set.load_target.is_none());
            for traffic in &set.traffic {
                assert!(traffic.lookup.median > 0.0 && traffic.node.median > 0.0, "{set:?}");
                assert_eq!(traffic.node_target.is_some(), set.family == "ipv4" && set.rules == 1000);
            }
        }
    }

    /// The worst cases, which are measured once for all tests.
    fn worst() -> &'static [Worst] {
        static RUN: OnceLock<Vec<Worst>> = OnceLock::new();
        RUN.get_or_init(|| worst_cases(&little()).unwrap())
    }

    #[test]
    fn the_worst_is_held_against_the_usual() {
        let worst = worst();
        assert_eq!(worst.len(), 2);
        for worst in worst {
            assert_eq!(worst.rows.iter().filter(|row| row.hard).count(), 3 * 6);
            for row in &worst.rows {
                let most = row.matching.max(row.any).max(row.slowest);
                assert!((row.times - most / worst.usual).abs() < 1e-9 && most > 0.0, "{row:?}");
            }
        }
    }

    #[test]
    fn rules_come_and_go_beside_lookups() {
        let cpus = weir_base::affinity::allowed().unwrap();
        let updates = updates(None, &little(), &cpus).unwrap();
        assert_eq!(updates.len(), 6);
        for updates in &updates {
            assert!(updates.added.count >= 300 && updates.removed.count > 0, "{updates:?}");
            assert!(updates.added.p50 <= updates.added.p99 && updates.added.p99 <= updates.added.most);
        }
    }

    #[test]
    fn rules_come_and_go_in_a_gateway_that_runs() {
        // A packet that is dropped is an error.
        let cpus = weir_base::affinity::allowed().unwrap();
        // Where others want the CPU, the worker may not get it for as long as a little window lasts: then there is another try.
        let mut tries = std::iter::repeat_with(|| running(&little(), &cpus).unwrap()).take(20);
        let running = tries.find(|all| all.iter().all(|one| one.idle.median > 0.0)).expect("packets pass");
        assert_eq!(running.iter().map(|one| one.family.as_str()).collect::<Vec<_>>(), ["ipv4", "ipv6"]);
        for one in &running {
            assert!(one.added.count >= 300 && one.removed.count > 0, "{one:?}");
        }
    }

    #[test]
    fn peers_that_are_not_there_are_an_error() {
        let effort = Effort { peers: Some(PathBuf::from("/nonexistent")), ..little() };
        assert!(matches!(rule_sets(None, &effort), Err(Error::Peer(_))));
    }

    #[test]
    fn a_peer_that_fails_is_told_of_and_the_others_go_on() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/bin/false", directory.path().join("peer-acl")).unwrap();
        let effort = Effort { peers: Some(directory.path().to_owned()), ..little() };
        let sets = rule_sets(None, &effort).unwrap();
        assert_eq!(sets.len(), 6);
        let report = Acl { sets, ..Acl::default() };
        for set in &report.sets {
            assert_eq!(set.peer_load_ms, None);
            for traffic in &set.traffic {
                let error = (set.family == "ipv4").then_some("the peer ended with exit status: 1");
                assert_eq!((traffic.peer_error.as_deref(), traffic.ratio), (error, None));
                assert!(traffic.lookup.median > 0.0);
            }
        }
        let text = report.text();
        let note = "\nno rte_acl of made-access, 1000 rules, spread: the peer ended with exit status: 1\n";
        assert!(text.contains(note), "{text}");
        assert_eq!(serde_json::from_str::<Acl>(&report.json()).unwrap(), report);
    }

    #[test]
    fn the_report_reads_back_is_drawn_and_says_what_was_missed() {
        let effort = little();
        let cpus = weir_base::affinity::allowed().unwrap();
        let mut report = Acl {
            tick_frequency: 1e9,
            cpu: "a CPU".to_owned(),
            turns: 1,
            repeats: 2,
            guide: guides(&effort).unwrap(),
            sets: rule_sets(None, &effort).unwrap(),
            worst: worst().to_vec(),
            updates: updates(None, &effort, &cpus).unwrap(),
            running: running(&effort, &cpus).unwrap(),
        };
        let again: Acl = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(again, report);
        let cost = &mut report.sets[0].traffic[0];
        cost.peers = vec![PeerCost { name: "rte_acl avx512x32".to_owned(), median: 50.0, min: 49.0 }];
        cost.ratio = Some(0.9);
        cost.ratio_target = Some(crate::report::figure::Target::at_most(0.8, 0.9));
        report.sets[0].peer_load_ms = Some(100.0);
        let directory = tempfile::tempdir().unwrap();
        let plots = report.plot(directory.path()).unwrap();
        assert_eq!(plots.len(), 4);
        assert!(plots.iter().all(|plot| std::fs::read_to_string(plot).unwrap().contains("</svg>")));
        let text = report.text();
        let line = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap_or_default().to_owned();
        assert!(line("ipv4    made-access").contains("avx512x32         0.90  ≤ 0.8 missed"), "{text}");
        assert!(line("input, stateless, 3 rules").contains(" 273 ") && text.contains("+137"), "{text}");
        assert!(line("input, stateful, 3 rules").contains(" 226 ") && text.contains("+90"), "{text}");
        assert!(line("allowlist, one way").contains("+33"), "{text}");
    }
}
