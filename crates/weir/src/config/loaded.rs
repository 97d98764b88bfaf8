//! A configuration that was read.

use std::path::PathBuf;

use weir_plane::model::Gateway;

use super::diagnostic::{Diagnostic, Severity};
use super::metrics::Metrics;
use super::render;
use super::routes::Routes;
use super::source::{Position, Sources};

/// `[service]`: the user of the process once it has opened its ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// A user's name or number; `None`: `weir` if there is one.
    pub user: Option<String>,
    /// A group's name or number; `None`: the user's own.
    pub group: Option<String>,
}

/// A configuration after loading.
#[derive(Debug)]
pub struct Loaded {
    /// The gateway it describes; `None` if there are errors.
    pub gateway: Option<Gateway>,
    /// The user of the process, which the gateway itself does not use.
    pub service: Service,
    /// Where metrics are served, if they are.
    pub metrics: Option<Metrics>,
    /// Other sources of routes, if there are any.
    pub routes: Option<Routes>,
    /// Where the cores of workers stand, if the configuration names any.
    pub cores: Option<Position>,
    /// The findings, in the order of the files and their lines.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts that the diagnostics point into.
    pub sources: Sources,
    /// The files with keys of SAs, as they were read.
    pub key_files: Vec<PathBuf>,
}

impl Loaded {
    /// Findings in texts that make no configuration.
    pub(super) fn found(diagnostics: Vec<Diagnostic>, sources: Sources) -> Loaded {
        Loaded {
            gateway: None,
            service: Service::default(),
            metrics: None,
            routes: None,
            cores: None,
            diagnostics,
            sources,
            key_files: Vec::new(),
        }
    }

    /// All files that were read: the configuration, what it includes and names, and key files.
    pub fn files(&self) -> Vec<PathBuf> {
        let texts = self.sources.iter().map(|source| PathBuf::from(&*source.name));
        texts.chain(self.key_files.iter().cloned()).collect()
    }

    /// How many diagnostics are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }

    /// The diagnostics for people; empty if there are none.
    pub fn text(&self, colour: bool) -> String {
        render::text(&self.diagnostics, &self.sources, colour)
    }

    /// The diagnostics for programs, in the schema `weir.check/1`.
    pub fn json(&self) -> String {
        render::json(&self.diagnostics, &self.sources)
    }
}
