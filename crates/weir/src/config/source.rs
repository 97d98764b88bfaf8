//! The texts that a configuration was read from, and places in them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_crypto::{Algorithm, Secret};

use super::key_file::{self, KeyFileError};
use super::pattern::{MATCHING, pattern};

/// Index of a text in [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(super) u32);

/// A range of octets in one text, on character boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The text.
    pub source: SourceId,
    /// First octet.
    pub start: u32,
    /// One past the last octet.
    pub end: u32,
}

impl Span {
    /// The span as a range of indices.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A value and where it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// Where a span lies, as people count: lines and columns from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// Line of the first character.
    pub line: u32,
    /// Column of the first character.
    pub column: u32,
    /// Line of the character past the last.
    pub end_line: u32,
    /// Column of the character past the last.
    pub end_column: u32,
}

/// The texts of one configuration, in the order they were read.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    texts: Vec<Source>,
}

/// One text.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file, as the user named it.
    pub name: Arc<str>,
    /// Its contents.
    pub text: Arc<str>,
    /// The folder that paths within it are relative to.
    pub(super) folder: PathBuf,
    /// Where each line starts; made when the text is added.
    lines: Vec<u32>,
}

impl Sources {
    /// Adds a text of less than 4 GiB.
    pub(super) fn add(&mut self, name: &str, text: String, folder: PathBuf) -> SourceId {
        let id = SourceId(u32::try_from(self.texts.len()).expect("fewer than 2^32 files"));
        let mut lines = Vec::with_capacity(text.len() / 16 + 1);
        lines.push(0);
        lines.extend(text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at as u32 + 1));
        self.texts.push(Source { name: name.into(), text: text.into(), folder, lines });
        id
    }

    /// A text and its name.
    pub fn source(&self, id: SourceId) -> &Source {
        &self.texts[id.0 as usize]
    }

    /// All texts, in the order they were read.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.texts.iter()
    }

    /// Returns for each text, by its number, the first text with the same contents: a file that is read twice is one there.
    pub(super) fn alike(&self) -> Vec<SourceId> {
        let mut first: HashMap<&str, SourceId> = HashMap::new();
        (0..).zip(&self.texts).map(|(id, source)| *first.entry(&source.text).or_insert(SourceId(id))).collect()
    }

    /// Where a span lies.
    pub fn position(&self, span: Span) -> Position {
        let source = self.source(span.source);
        let (line, column) = source.line_and_column(span.start);
        let (end_line, end_column) = source.line_and_column(span.end);
        Position { file: Arc::clone(&source.name), line, column, end_line, end_column }
    }
}

impl Source {
    /// The line (from 1) that an offset lies on.
    pub(super) fn line(&self, offset: u32) -> u32 {
        self.lines.partition_point(|&start| start <= offset) as u32
    }

    /// Where a line (from 1) starts.
    pub(super) fn line_start(&self, line: u32) -> u32 {
        self.lines[line as usize - 1]
    }

    /// The octets of a line (from 1), its line break excluded.
    pub(super) fn line_range(&self, line: u32) -> Range<usize> {
        let start = self.line_start(line) as usize;
        let end = self.lines.get(line as usize).map_or(self.text.len(), |&next| next as usize - 1);
        let end = if self.text[start..end].ends_with('\r') { end - 1 } else { end };
        start..end
    }

    fn line_and_column(&self, offset: u32) -> (u32, u32) {
        let line = self.line(offset);
        let before = &self.text[self.line_start(line) as usize..offset as usize];
        (line, before.chars().filter(|&c| c != '\u{feff}').count() as u32 + 1)
    }

    /// A path named in this text.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        if self.folder.as_os_str().is_empty() { PathBuf::from(path) } else { self.folder.join(path) }
    }
}

/// Where the configuration gets files from: the disk, or nothing.
pub(super) trait Files {
    /// Reads a file of at most `limit` octets.
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError>;

    /// Reads the secret of an SA.
    fn read_key(&self, path: &Path, algorithm: Algorithm) -> Result<Secret, KeyFileError>;

    /// Returns the identity of a file, whatever its name.
    fn identity(&self, path: &Path) -> PathBuf;

    /// Returns the files that a path of `include` names: itself, or the matching ones in order if it is a pattern.
    fn expand(&self, path: &Path) -> Vec<PathBuf> {
        vec![path.to_owned()]
    }

    /// Returns whether a file is missing, as far as this can be found out.
    fn is_missing(&self, path: &Path) -> bool;

    /// The CPUs of this machine that are online, if that is known.
    fn cpus(&self) -> Option<HashSet<u16>>;

    /// The memory that there may be, if that is known.
    fn memory(&self) -> Option<Memory>;
}

/// The memory that a gateway may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) octets: u64,
    /// A control group bounds it, and not the machine.
    pub(super) is_bounded: bool,
}

/// Why a file was not read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// It holds more than it may.
    TooLarge(u64),
    /// The system said so.
    Io(std::io::Error),
    /// There are no files here.
    NoFiles,
}

/// The file system.
pub(super) struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
        use std::io::Read as _;
        let file = weir_base::file::open(path).map_err(ReadError::Io)?;
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes).map_err(ReadError::Io)?;
        if bytes.len() as u64 > limit { Err(ReadError::TooLarge(limit)) } else { Ok(bytes) }
    }

    fn read_key(&self, path: &Path, algorithm: Algorithm) -> Result<Secret, KeyFileError> {
        key_file::read(path, algorithm)
    }

    fn identity(&self, path: &Path) -> PathBuf {
        std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
    }

    fn expand(&self, path: &Path) -> Vec<PathBuf> {
        let Some(pattern) = pattern(path) else { return vec![path.to_owned()] };
        let Ok(found) = glob::glob_with(pattern.as_str(), MATCHING) else { return Vec::new() };
        // Sorted by the crate. What cannot be looked into has no files for weir.
        found.flatten().filter(|path| !path.is_dir()).collect()
    }

    fn is_missing(&self, path: &Path) -> bool {
        matches!(std::fs::metadata(path), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
    }

    fn cpus(&self) -> Option<HashSet<u16>> {
        cpus(&std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?)
    }

    fn memory(&self) -> Option<Memory> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let octets = memory(&read("/proc/meminfo")?)?;
        let bound = read("/proc/self/cgroup").and_then(|text| bound(&text, read));
        let is_bounded = bound.is_some_and(|bound| bound < octets);
        Some(Memory { octets: bound.map_or(octets, |bound| bound.min(octets)), is_bounded })
    }
}

/// Returns the octets of memory that the control groups of a process allow, by what `/proc/self/cgroup` says: the least of the
/// limits on the way up.
fn bound(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let (controllers, path) = line.split_once(':').and_then(|(_, rest)| rest.split_once(':')).unwrap_or_default();
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|own| own == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let up = Path::new(path).ancestors().map(|own| own.display().to_string());
        up.filter_map(|own| read(&format!("{root}{}/{file}", own.trim_end_matches('/')))).collect()
    });
    limits.filter_map(|text: String| text.trim().parse().ok()).min()
}

/// Reads the octets of memory that `/proc/meminfo` names.
fn memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Reads a list of CPUs as the kernel writes it: `0-3,8`.
fn cpus(list: &str) -> Option<HashSet<u16>> {
    let mut all = HashSet::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        all.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

/// A text that stands alone.
pub(super) struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path, _: u64) -> Result<Vec<u8>, ReadError> {
        Err(ReadError::NoFiles)
    }

    fn read_key(&self, _: &Path, _: Algorithm) -> Result<Secret, KeyFileError> {
        Err(KeyFileError::NoFiles)
    }

    fn identity(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn is_missing(&self, _: &Path) -> bool {
        false
    }

    fn cpus(&self) -> Option<HashSet<u16>> {
        None
    }

    fn memory(&self) -> Option<Memory> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(memory("MemTotal:         512 kB\nMemFree: 1 kB\n"), Some(512 << 10));
        assert_eq!((memory("MemFree: 1 kB\n"), memory("MemTotal: x kB")), (None, None));
    }

    #[test]
    fn the_least_limit_of_the_groups_on_the_way_up_counts() {
        let files = |text: &'static [(&str, &str)]| {
            move |path: &str| text.iter().find(|(own, _)| *own == path).map(|(_, text)| (*text).to_owned())
        };
        let v2 = files(&[
            ("/sys/fs/cgroup/weir.slice/weir.service/memory.max", "max\n"),
            ("/sys/fs/cgroup/weir.slice/memory.max", "94371840\n"),
            ("/sys/fs/cgroup/memory.max", "104857600\n"),
        ]);
        assert_eq!(bound("0::/weir.slice/weir.service\n", v2), Some(90 << 20));
        let v1 = files(&[
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(bound("12:cpu,cpuacct:/b\n4:memory:/a\n0::/a\n", v1), Some(4096));
        assert_eq!(bound("0::/\n", |_| None), None);
        assert_eq!(bound("", |_| Some("1".to_owned())), None);
    }

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpus("0\n"), Some([0].into()));
        assert_eq!(cpus("0-2,8,10-11\n"), Some([0, 1, 2, 8, 10, 11].into()));
        assert_eq!((cpus(""), cpus("x"), cpus("1-")), (None, None, None));
        assert!(Disk.cpus().is_none_or(|cpus| !cpus.is_empty()));
        assert_eq!(NoFiles.cpus(), None);
    }
}
