//! The configuration: TOML files into the validated model, and everything that is wrong with them in one pass.
//!
//! A text passes through four steps, each of which goes on past errors:
//! `document` makes a tree of it, syntax errors or not; `declare` walks the tree and takes down what each object
//! says (`table` and `value` read the values); `load` follows includes, lists of routes and files of rules;
//! `resolve` holds the objects against each other and makes the [`Gateway`]. There is a gateway if and only if
//! there is no error.

mod declare;
mod diagnostic;
mod document;
mod literal;
mod load;
mod render;
mod resolve;
mod source;
mod table;
mod value;

use std::path::Path;

use weir_plane::model::Gateway;

pub use diagnostic::{Code, Diagnostic, Label, Severity};
pub(crate) use render::plural;
pub use render::{json, text};
pub use source::{Position, Source, SourceId, Sources, Span};

/// `[service]`: as whom the process goes on once it has what only root can open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// A user's name or number; `None`: `weir` if there is one.
    pub user: Option<String>,
    /// A group's name or number; `None`: the user's own.
    pub group: Option<String>,
}

/// What became of a configuration.
#[derive(Debug)]
pub struct Loaded {
    /// The gateway it describes; `None` if there are errors.
    pub gateway: Option<Gateway>,
    /// As whom it is to run; nothing the gateway itself knows of.
    pub service: Service,
    /// Where the cores of workers stand, if the configuration names any.
    pub cores: Option<Position>,
    /// What was found, in the order of the files and their lines.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts that the diagnostics point into.
    pub sources: Sources,
}

impl Loaded {
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

/// Reads a configuration and the files it names. Opens no port and needs no privileges.
pub fn load(path: &Path) -> Loaded {
    load::load(path, &source::Disk, false)
}

/// The same, and looks for rules of access lists and exemptions that could be left out: long lists take a second or so.
pub fn check(path: &Path) -> Loaded {
    load::load(path, &source::Disk, true)
}

/// Reads a configuration that stands alone: it cannot include files or name lists of routes, and no file is touched.
/// `name` stands for it in diagnostics and origins.
pub fn parse_str(name: &str, text: &str) -> Loaded {
    load::parse(name, text, &source::NoFiles)
}

#[cfg(test)]
mod tests;
