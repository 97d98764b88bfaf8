//! The configuration: TOML files into the validated model, and everything that is wrong with them in one pass.
//!
//! A text passes through four steps, each of which goes on past errors:
//! `document` makes a tree of it, syntax errors or not; `declare` walks the tree and takes down what each object
//! says (`table` and `value` read the values); `load` follows includes, lists of routes and files of rules;
//! `resolve` holds the objects against each other and makes the [`Gateway`](weir_plane::model::Gateway). There is a gateway if and only if
//! there is no error.

mod declare;
mod diagnostic;
mod document;
mod key_file;
mod literal;
pub(crate) mod live;
mod load;
mod loaded;
mod metrics;
mod over;
mod overlay;
mod pattern;
mod recorded;
mod render;
mod resolve;
pub(crate) mod routes;
mod source;
mod table;
pub(crate) mod value;

use std::path::Path;

pub use diagnostic::{Code, Diagnostic, Label, Severity};
pub use loaded::{Loaded, Service};
pub use metrics::{Detail, Listen, Metrics};
pub(crate) use overlay::SOCKET;
pub use overlay::{OverRule, OverSa, OverSpd, Overlay, Successor};
pub use recorded::Texts;
pub(crate) use render::plural;
pub use render::{json, text};
pub use routes::Routes;
pub use source::{Position, Source, SourceId, Sources, Span};

/// Reads a configuration and the files it names. Opens no port and needs no privileges.
pub fn load(path: &Path) -> Loaded {
    load::load(path, &source::Disk, false)
}

/// The same with what the control socket adds.
pub fn load_over(path: &Path, overlay: &Overlay) -> Loaded {
    load::load_over(path, &source::Disk, overlay)
}

/// The same from texts in memory.
pub fn load_texts(texts: &Texts, overlay: &Overlay) -> Loaded {
    load::load_over(texts.main(), &recorded::Recorded(texts), overlay)
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
