//! Where objects of a model were declared.

use std::sync::Arc;

/// Where an object came from: an index into [`Origins`]. `Origin(0)` is weir itself (built-in behaviour).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Origin(pub u32);

/// The places that [`Origin`] values stand for, e.g. `edge.toml:12`. A million of them cost a few octets each: the text
/// of a source is held in one copy, and a line is cut out of it when an origin is printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    sources: Vec<SourceText>,
    lines: Vec<LineStart>,
}

/// Index of a source in [`Origins`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceIndex(u32);

#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceText {
    name: Arc<str>,
    text: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineStart {
    source: SourceIndex,
    line: u32,
    offset: u32,
}

/// A place in a source of configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it, or the name of another source.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
    /// The text of that line, trimmed, for `explain`.
    pub text: Arc<str>,
}

impl Origins {
    /// Adds a source: a file and its text, or another source (its texts may be empty).
    pub fn add_source(&mut self, name: Arc<str>, text: Arc<str>) -> SourceIndex {
        self.sources.push(SourceText { name, text });
        SourceIndex(u32::try_from(self.sources.len() - 1).expect("fewer than 2^32 sources"))
    }

    /// Records a line of a source, counted from 1, that starts at `offset` of its text; returns what stands for it.
    pub fn add_line(&mut self, source: SourceIndex, line: u32, offset: u32) -> Origin {
        self.lines.push(LineStart { source, line, offset });
        Origin(u32::try_from(self.lines.len()).expect("a configuration of fewer than 2^32 objects"))
    }

    /// Adds a source, or replaces the text of the last source of this name. So sources that come again take no more memory; places
    /// recorded before are read in the new text.
    pub fn put_source(&mut self, name: Arc<str>, text: Arc<str>) -> SourceIndex {
        match self.sources.iter().rposition(|own| own.name == name) {
            Some(at) => {
                self.sources[at].text = text;
                SourceIndex(at as u32)
            }
            None => self.add_source(name, text),
        }
    }

    /// Records a line as [`Origins::add_line`] does; a line that was recorded before is recorded once.
    pub fn put_line(&mut self, source: SourceIndex, line: u32, offset: u32) -> Origin {
        match self.lines.iter().rposition(|own| (own.source, own.line) == (source, line)) {
            Some(at) => {
                self.lines[at].offset = offset;
                Origin(at as u32 + 1)
            }
            None => self.add_line(source, line, offset),
        }
    }

    /// Records a place that belongs to no source added before.
    pub fn add(&mut self, place: Place) -> Origin {
        let source = self.add_source(place.file, place.text);
        self.add_line(source, place.line, 0)
    }

    /// The place of an origin; `None` for what is built in.
    pub fn place(&self, origin: Origin) -> Option<Place> {
        let start = (origin.0 as usize).checked_sub(1).and_then(|index| self.lines.get(index))?;
        let source = &self.sources[start.source.0 as usize];
        let rest = source.text.get(start.offset as usize..).unwrap_or_default();
        let text = rest.lines().next().unwrap_or_default().trim();
        Some(Place { file: Arc::clone(&source.name), line: start.line, text: Arc::from(text) })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
