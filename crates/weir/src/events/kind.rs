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
    /// A session table that is full
    Full,
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
            Kind::Full => "full",
            Kind::Route => "route",
            Kind::Reload => "reload",
            Kind::Edit => "edit",
            Kind::Refused => "refused",
            Kind::Gateway => "gateway",
        }
    }

    /// The kind of an event by the field `kind` of a line of the log; lines without it are of the gateway.
    pub(super) fn of(field: Option<&str>) -> Kind {
        field.and_then(|name| <Kind as clap::ValueEnum>::from_str(name, false).ok()).unwrap_or(Kind::Gateway)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn lines_of_the_log_have_kinds_by_their_field() {
        for kind in Kind::value_variants() {
            assert_eq!(Kind::of(Some(kind.name())), *kind);
        }
        assert_eq!((Kind::of(None), Kind::of(Some("rumour"))), (Kind::Gateway, Kind::Gateway));
    }
}
