//! Tables that there is no memory for.

use weir_plane::compile::octets_of_classify;
use weir_plane::engine::{least_octets_of_decisions, least_octets_of_sessions, octets_of_caches};
use weir_plane::model::{Bridge, ClassifyTable, FastPath};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::{Files, Memory, Span};
use super::Resolver;

/// Octets of a MiB.
const MIB: u64 = 1 << 20;

/// Octets of a station that a bridge may have, at least.
const OCTETS_OF_STATION: u64 = 32;

/// Memory that a setting needs.
struct Wanted {
    /// The setting, in words.
    what: String,
    octets: u64,
    /// Where it is set, if it is.
    span: Option<Span>,
    help: String,
}

impl Resolver<'_> {
    /// Refuses tables that the memory of this machine, or of the control group, cannot hold.
    pub(super) fn beyond_memory(
        &mut self,
        files: &dyn Files,
        (classify, bridges, workers): (&[ClassifyTable], &[Bridge], u16),
    ) {
        let Some(Memory { octets: memory, is_bounded }) = files.memory() else { return };
        let mut wanted = self.of_flows();
        let declared = self.declared;
        for table in classify {
            let own = declared.access.classify.iter().find(|own| own.name.value == table.name);
            let span = own.map(|own| own.size.as_ref().map_or(own.name.span, |size| size.span));
            let octets = octets_of_classify(table, workers);
            let each = octets.div_ceil(u64::from(table.size));
            let help = format!("lower `size`: a session of the table takes {each} octets");
            wanted.push(Wanted {
                what: format!("the {} sessions of `{}`", table.size, table.name),
                octets,
                span,
                help,
            });
        }
        for own in &declared.access.spd {
            let octets = octets_of_caches(own.cache, workers);
            if octets > 0 {
                wanted.push(Wanted {
                    what: format!("the caches of `{}`", own.name.value),
                    octets,
                    span: Some(own.flows.unwrap_or(own.name.span)),
                    help: format!(
                        "lower `flows` of `cache`, which is {}: each direction has a cache of both families on each worker",
                        own.cache.flows
                    ),
                });
            }
        }
        for bridge in bridges {
            let own = declared.bridges.iter().find(|own| own.name.value == bridge.name);
            let octets = u64::from(bridge.macs) * OCTETS_OF_STATION;
            let help = format!("lower `macs`: a station takes {OCTETS_OF_STATION} octets at least");
            let what = format!("the {} stations of `{}`", bridge.macs, bridge.name);
            wanted.push(Wanted { what, octets, span: own.map(|own| own.name.span), help });
        }
        let all = wanted.iter().fold(0u64, |all, own| all.saturating_add(own.octets));
        // Bounds that no key sets are no reason to refuse a small machine.
        let set = wanted.iter().filter(|own| own.span.is_some()).max_by_key(|own| own.octets);
        let Some(set) = set.filter(|_| all > memory).and_then(|own| own.span) else { return };
        // The greatest one has to be lowered, also if it is as large as it is unless a key says otherwise.
        let Some(Wanted { what, octets, span, help }) = wanted.iter().max_by_key(|own| own.octets) else { return };
        let span = span.unwrap_or(set);
        let there = match is_bounded {
            true => format!("the control group of weir may have {} MiB", memory / MIB),
            false => format!("this machine has {} MiB", memory / MIB),
        };
        let message = match all - octets {
            others if others < MIB => format!("{what} take {} MiB of memory at least; {there}", all / MIB),
            others => format!(
                "{what} take {} MiB of memory at least, and other tables {} MiB; {there}",
                octets / MIB,
                others / MIB
            ),
        };
        self.report(Diagnostic::error(Code::BeyondMemory, span, message).help(help.clone()));
    }

    /// The tables of flows.
    fn of_flows(&self) -> Vec<Wanted> {
        let settings = &self.declared.settings;
        let table = &settings.flow_table;
        let decisions = if table.enabled == FastPath::Off { 0 } else { least_octets_of_decisions(table.flows) };
        let sessions = Wanted {
            what: format!("{} sessions", table.sessions),
            octets: least_octets_of_sessions(table.sessions),
            span: settings.sessions_span,
            help: format!("lower `sessions`: a session takes {} octets at least", least_octets_of_sessions(1)),
        };
        let flows = Wanted {
            what: format!("{} learned decisions", table.flows),
            octets: decisions,
            span: settings.flows_span,
            help: format!("lower `flows`: a learned decision takes {} octets at least", least_octets_of_decisions(1)),
        };
        vec![sessions, flows]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};

    use weir_crypto::{Algorithm, Secret};

    use super::super::super::key_file::KeyFileError;
    use super::super::super::load;
    use super::super::super::source::{NoFiles, ReadError};
    use super::*;

    /// A machine with so many octets of memory.
    struct Machine(u64);

    /// That of a control group.
    const BOUNDED: u64 = 90 << 20;

    impl Files for Machine {
        fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
            NoFiles.read(path, limit)
        }

        fn read_key(&self, path: &Path, algorithm: Algorithm) -> Result<Secret, KeyFileError> {
            NoFiles.read_key(path, algorithm)
        }

        fn identity(&self, path: &Path) -> PathBuf {
            NoFiles.identity(path)
        }

        fn is_missing(&self, path: &Path) -> bool {
            NoFiles.is_missing(path)
        }

        fn cpus(&self) -> Option<HashSet<u16>> {
            NoFiles.cpus()
        }

        fn memory(&self) -> Option<Memory> {
            Some(Memory { octets: self.0, is_bounded: self.0 == BOUNDED })
        }
    }

    fn found(keys: &str, machine: &Machine) -> String {
        let text = format!(
            "version = 1\n[flow-table]\n{keys}\n[[interface]]\nname = \"a\"\nport = \"null\"\naddress = \"192.0.2.1/24\"\n"
        );
        load::parse("test.toml", &text, machine).text(false)
    }

    #[test]
    fn bounds_beyond_memory_are_refused_with_the_key_to_lower() {
        let machine = Machine(256 << 20);
        let sessions = found("sessions = 16000000", &machine);
        assert!(sessions.contains("beyond-memory") && sessions.contains("test.toml:3:12"), "{sessions}");
        assert!(sessions.contains("16000000 sessions take") && sessions.contains("and other tables"), "{sessions}");
        assert!(sessions.contains("this machine has 256 MiB") && sessions.contains("lower `sessions`"), "{sessions}");
        let flows = found("flows = 16000000\nsessions = 1", &machine);
        assert!(flows.contains("lower `flows`") && flows.contains("test.toml:3:9"), "{flows}");
        let group = found("sessions = 200000\nflows = 1", &Machine(BOUNDED));
        assert_eq!(group, "");
        let group = found("sessions = 400000\nflows = 1", &Machine(BOUNDED));
        assert!(group.contains("the control group of weir may have 90 MiB"), "{group}");
        assert_eq!(found("flows = 16000000\nsessions = 1\nenabled = false", &machine), "", "nothing is learned");
        // Bounds that no key sets are no reason to refuse a small machine.
        assert_eq!(found("", &Machine(1 << 20)), "");
        assert_eq!(found("sessions = 16000000", &Machine(1 << 40)), "");
    }

    #[test]
    fn tables_of_classifiers_and_bridges_count() {
        let table = "flows = 1\nsessions = 1\n[classify.big]\nmask = \"l3 hex ff\"\nsize = 16000000\nsessions = []";
        let found_by = found(table, &Machine(1 << 30));
        assert!(
            found_by.contains("the 16000000 sessions of `big` take") && found_by.contains("test.toml:7:8"),
            "{found_by}"
        );
        assert!(found_by.contains("lower `size`: a session of the table takes 99 octets"), "{found_by}");
        assert!(!found(table, &Machine(1 << 31)).contains("beyond-memory"));
        let cache = |keys: &str| {
            let spd = "[spd.edge]\nrules = [\"bypass ip from any to any\"]";
            found(&format!("flows = 1\nsessions = 1\n{spd}\ncache = {{ {keys} }}"), &Machine(512 << 20))
        };
        // 4,194,304 places: 96 MiB of IPv4 and 192 MiB of IPv6.
        assert!(!cache("outbound = true").contains("beyond-memory"));
        let both = cache("outbound = true, inbound = true, flows = 1000000");
        assert!(both.contains("the caches of `edge` take 576 MiB") && both.contains("test.toml:7:52"), "{both}");
        assert!(both.contains("lower `flows` of `cache`, which is 1000000"), "{both}");
        assert!(cache("outbound = true, inbound = true").contains("test.toml:5:6"), "the default counts, too");
        assert!(!cache("outbound = true, inbound = true, flows = 500000").contains("beyond-memory"));
        let bridge = "flows = 1\nsessions = 1\n[bridge.lan]\nmacs = 4194304\ninterfaces = []";
        let found_by = found(bridge, &Machine(64 << 20));
        assert!(found_by.contains("the 4194304 stations of `lan` take 128 MiB"), "{found_by}");
        // The default of another key takes the most.
        let flows = found("sessions = 1000", &Machine(1 << 20));
        assert!(flows.contains("learned decisions take") && flows.contains("lower `flows`"), "{flows}");
        assert!(flows.contains("test.toml:3:12"), "there is no other place: {flows}");
    }
}
