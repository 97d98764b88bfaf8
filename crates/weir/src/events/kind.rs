//! The kinds of events.

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[clap(rename_all = "kebab-case")]
pub enum Kind {
    /// Links that go down and come back
    Link,
    /// Neighbours, duplicate addresses and conflicts
    Neighbor,
    /// Sessions and translations that begin and end; only if named
    Session,
    /// Alarms that begin and end
    Alarm,
    /// Routes of other sources
    Route,
    /// Reloads, their confirmation, and changes that are taken back
    Reload,
    /// Live edits
    Edit,
    /// Changes that were refused
    Refused,
    /// All else: start and end, ports that fail, samples
    Gateway,
}

impl Kind {
    /// Its word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Link => "link",
            Kind::Neighbor => "neighbor",
            Kind::Session => "session",
            Kind::Alarm => "alarm",
            Kind::Route => "route",
            Kind::Reload => "reload",
            Kind::Edit => "edit",
            Kind::Refused => "refused",
            Kind::Gateway => "gateway",
        }
    }

    /// Returns the kind of an event by the module that logs it, and by its words where a module logs several kinds.
    pub(super) fn of(module: &str, message: &str) -> Kind {
        let begins = |words: &[&str]| words.iter().any(|word| message.starts_with(word));
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if module.starts_with("weir::routes") {
            return Kind::Route;
        }
        if module.starts_with("weir::cli::log") {
            return match () {
                () if has(&[" invalid packets/s"]) => Kind::Alarm,
                () if has(&[": link ", "MTU"]) => Kind::Link,
                () => Kind::Neighbor,
            };
        }
        if !module.starts_with("weir::control") {
            return Kind::Gateway;
        }
        match () {
            () if begins(&["not reloaded", "nothing was taken back"]) => Kind::Refused,
            () if has(&["nothing changed", ": not ", "nothing was changed", "a reload waits for"]) => Kind::Refused,
            () if begins(&["reloaded", "the reload", "generation", "taken back", "the gateway cannot go back"]) => {
                Kind::Reload
            }
            () => Kind::Edit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_have_kinds() {
        let control = "weir::control::running";
        for (module, message, kind) in [
            ("weir::cli::log", "interface wan: link down", Kind::Link),
            ("weir::cli::log", "wan: 30 invalid packets/s (policy edge, threshold 10)", Kind::Alarm),
            ("weir::cli::log", "the neighbour table is full", Kind::Neighbor),
            ("weir::routes::fib", "route 10.0.0.0/8 refused", Kind::Route),
            (control, "reloaded: generation 3, 4 routes", Kind::Reload),
            (control, "the reload was not confirmed and is taken back: generation 4", Kind::Reload),
            (control, "not reloaded: the configuration is invalid; the old one goes on", Kind::Refused),
            (control, "acl edge-in: noc inserted 1, deleted 0, moved 0; 4 rules", Kind::Edit),
            (control, "acl edge-in: nothing changed: there is no rule 7", Kind::Refused),
            ("weir::control::running::edits", "nat out: api inserted 1, deleted 0, moved 0; 2 rules", Kind::Edit),
            ("weir::cli::run", "ending", Kind::Gateway),
        ] {
            assert_eq!(Kind::of(module, message), kind, "{message}");
        }
    }
}
