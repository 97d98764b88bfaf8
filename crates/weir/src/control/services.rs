//! Services beside the graph, which follow reloads of the configuration: sources of routes, and metrics.

use crate::config::{Loaded, Metrics, Routes};
use crate::render::reloaded::Lost;
use crate::render::routes::Source;

/// The settings of services beside the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where metrics are served, if they are.
    pub metrics: Option<Metrics>,
    /// Other sources of routes, if there are any.
    pub routes: Option<Routes>,
}

impl Settings {
    /// Of a configuration.
    pub fn of(loaded: &Loaded) -> Settings {
        Settings { metrics: loaded.metrics.clone(), routes: loaded.routes.clone() }
    }

    /// Names the sources of routes that end with these settings, whose routes go.
    pub(super) fn ended(&self, sources: Vec<Source>) -> Option<Lost> {
        let routes = self.routes.as_ref();
        let stays = |source: &str| match source {
            "kernel" => routes.is_some_and(|routes| routes.kernel),
            _ => routes.is_some_and(|routes| routes.fpm.is_some()),
        };
        let ended = sources.into_iter().filter(|source| source.routes > 0 && !stays(&source.source));
        let words = |own: Source| match own.routes {
            1 => format!("the source {} ends: its route goes", own.source),
            routes => format!("the source {} ends: its {routes} routes go", own.source),
        };
        let parts: Vec<String> = ended.map(words).collect();
        (!parts.is_empty()).then(|| Lost { of: "routes".to_owned(), parts, ..Lost::default() })
    }

    /// Names the tables that differ.
    pub(super) fn differing(&self, other: &Settings) -> Vec<String> {
        let tables = [("metrics", self.metrics != other.metrics), ("routes", self.routes != other.routes)];
        tables.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
    }
}

/// The services beside the graph.
pub trait Services: Send {
    /// Opens the sockets of other settings that are not open yet. What is in force stays.
    ///
    /// # Errors
    /// Says which address cannot be used. Nothing is open then that was not before.
    fn open(&mut self, settings: &Settings) -> Result<(), String>;

    /// Closes what was opened for other settings.
    fn cancel(&mut self);

    /// Follows the settings for which sockets were opened.
    fn follow(&mut self, settings: &Settings);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_routes_of_sources_that_end_are_said() {
        let settings =
            |text: &str| Settings::of(&crate::config::parse_str("test.toml", &format!("version = 1\n{text}")));
        let source = |source: &str, routes: usize| Source {
            source: source.to_owned(),
            state: "following".to_owned(),
            routes,
            nexthops: 0,
            refused: 0,
            lists: 1,
            overflows: 0,
            limit: 2_000_000,
            bytes: 0,
        };
        let sources = || vec![source("kernel", 7), source("fpm", 1)];
        let lines = |text: &str, sources| settings(text).ended(sources).map(|lost| lost.lines()).unwrap_or_default();
        let (kernel, fpm) = ("the source kernel ends: its 7 routes go", "the source fpm ends: its route goes");
        let of = |line: &str| format!("routes: {line}");
        assert_eq!(lines("", sources()), [of(kernel), of(fpm)]);
        assert_eq!(lines("[routes]\nkernel = true", sources()), [of(fpm)]);
        assert_eq!(lines("[routes]\nfpm = \"127.0.0.1:2620\"", sources()), [of(kernel)]);
        assert!(lines("", vec![source("kernel", 0)]).is_empty());
    }
}
