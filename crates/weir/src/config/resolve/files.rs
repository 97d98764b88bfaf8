//! The files that ports read and write, and that samplers write.

use std::collections::HashMap;
use std::path::PathBuf;

use super::super::declare::{FileUse, Kind};
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::Files;
use super::Resolver;
use crate::sampler as samples;

impl Resolver<'_> {
    /// Refuses a file that is written twice or written and read; warns of captures that are not there.
    pub(super) fn files(&mut self, files: &dyn Files) {
        let declared = self.declared;
        let uses = declared.interfaces.iter().flat_map(|interface| match &interface.kind {
            Some(Kind::Port { uses, .. }) => uses.files.as_slice(),
            _ => &[],
        });
        let samples = declared.samplers.iter().filter_map(|sampler| sampler.file.as_ref());
        let mut first: HashMap<PathBuf, &FileUse> = HashMap::new();
        for used in uses.chain(samples) {
            let identity = files.identity(&used.path);
            match first.get(&identity) {
                Some(other) if used.written || other.written => {
                    let how = if used.written && other.written { "written twice" } else { "both read and written" };
                    let message = format!("`{}` would be {how}", used.path.display());
                    let found = Diagnostic::error(Code::FileConflict, used.span, message);
                    self.report(found.related(other.span, "first here"));
                }
                Some(_) => {}
                None => {
                    first.insert(identity, used);
                }
            }
            if !used.written && files.is_missing(&used.path) {
                let message = format!("there is no file `{}` now", used.path.display());
                self.report(Diagnostic::warning(Code::CaptureMissing, used.span, message));
            }
        }
        for sampler in &declared.samplers {
            let (Some(pcap), Some(used)) = (&sampler.pcap, &sampler.file) else { continue };
            for older in (1..pcap.max_files).map(|number| samples::older(&used.path, number)) {
                if let Some(other) = first.get(&files.identity(&older)) {
                    let message = format!("`{}` is also an older file of this sampler", older.display());
                    let found = Diagnostic::error(Code::FileConflict, other.span, message);
                    self.report(found.related(used.span, "the sampler's file"));
                }
            }
        }
    }
}
