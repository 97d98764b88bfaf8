//! Tables of flows that this machine has no memory for.

use weir_plane::engine::{least_octets_of_decisions, least_octets_of_sessions};
use weir_plane::model::FastPath;

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::Files;
use super::Resolver;

/// Octets of a MiB.
const MIB: u64 = 1 << 20;

impl Resolver<'_> {
    /// Refuses bounds of `[flow-table]` that the memory of this machine cannot hold.
    pub(super) fn beyond_memory(&mut self, files: &dyn Files) {
        let settings = &self.declared.settings;
        let Some(memory) = files.memory() else { return };
        let table = &settings.flow_table;
        let decisions = if table.enabled == FastPath::Off { 0 } else { least_octets_of_decisions(table.flows) };
        let sessions = least_octets_of_sessions(table.sessions);
        let mut bounds = [
            ("flows", table.flows, settings.flows_span, decisions),
            ("sessions", table.sessions, settings.sessions_span, sessions),
        ];
        // The greater one has to be lowered.
        bounds.sort_by_key(|(.., octets)| std::cmp::Reverse(*octets));
        let [(name, count, own, octets), (other, other_count, other_span, other_octets)] = bounds;
        let all = octets.saturating_add(other_octets);
        let Some(span) = own.or(other_span).filter(|_| all > memory) else { return };
        let message = format!(
            "{count} {name}, with the {other_count} {other}, take {} MiB of memory at least; this machine has {} MiB",
            all / MIB,
            memory / MIB
        );
        let found = Diagnostic::error(Code::BeyondMemory, span, message);
        self.report(found.help(format!(
            "lower `{name}`: a session takes {} octets at least, a learned decision {}",
            least_octets_of_sessions(1),
            least_octets_of_decisions(1)
        )));
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

        fn memory(&self) -> Option<u64> {
            Some(self.0)
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
        assert!(sessions.contains("16000000 sessions, with the "), "{sessions}");
        assert!(sessions.contains("this machine has 256 MiB") && sessions.contains("lower `sessions`"), "{sessions}");
        let flows = found("flows = 16000000\nsessions = 1", &machine);
        assert!(flows.contains("lower `flows`") && flows.contains("test.toml:3:9"), "{flows}");
        assert_eq!(found("flows = 16000000\nsessions = 1\nenabled = false", &machine), "", "nothing is learned");
        // Bounds that no key sets are no reason to refuse a small machine.
        assert_eq!(found("", &Machine(1 << 20)), "");
        assert_eq!(found("sessions = 16000000", &Machine(1 << 40)), "");
    }
}
