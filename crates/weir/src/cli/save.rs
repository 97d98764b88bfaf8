//! `weir save`: the running configuration into its files, or into another one.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::target;
use crate::control::ReloadRequest;
use crate::control::client::Client;
use crate::render::history::History;
use crate::render::number::plural;
use crate::render::reloaded::{Lost, Reloaded};
use crate::render::saved::{Saved, SavedFile};

/// Writes the running configuration into its files, or into another file
#[derive(Debug, Args)]
pub struct Save {
    #[command(flatten)]
    connection: Connection,
    /// Write all of it into this file, with the files that it includes; `-`: to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the files and what they are to have as JSON; change none
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

impl Save {
    pub(super) fn run(&self) -> Result<(), Error> {
        let client = self.connection.client();
        let folder = self.out.as_deref().map(folder).transpose()?;
        let (saved, json) = client.show::<Saved>(&target("/v1/saved", [("folder", folder)]))?;
        for note in &saved.notes {
            let _ = writeln!(std::io::stderr(), "! {note}");
        }
        if self.json {
            return print(&json);
        }
        match (&self.out, &saved.whole) {
            (Some(path), Some(text)) if path.as_os_str() == "-" => print(text),
            (Some(path), Some(text)) => {
                New::write(path, text)?.put()?;
                print(&format!("{}: saved\n", path.display()))
            }
            _ => in_place(&client, &saved),
        }
    }
}

/// Returns the folder of a file, absolute.
fn folder(path: &Path) -> Result<String, Error> {
    let absolute = std::path::absolute(path);
    let absolute = absolute.map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
    Ok(absolute.parent().unwrap_or(Path::new("/")).display().to_string())
}

/// Writes the files that differ, and has the gateway load them, so that they are what it compares with. A file that somebody changed
/// since it was loaded is left alone, and so are all.
fn in_place(client: &Client, saved: &Saved) -> Result<(), Error> {
    if saved.files.is_empty() {
        return print(&format!("{}: nothing to save\n", saved.file));
    }
    // The gateway would not load the files.
    let (history, _) = client.show::<History>("/v1/undo")?;
    if history.confirm_by.is_some() {
        return Err(Error::Failed(
            "a reload waits for `weir confirm`: confirm it first, or save into another file with `--out`; nothing was saved"
                .to_owned(),
        ));
    }
    for SavedFile { path, before, .. } in &saved.files {
        let now = fs::read_to_string(path).map_err(|error| Error::Failed(format!("cannot read {path}: {error}")))?;
        if now != *before {
            return Err(Error::Failed(format!(
                "{path} has changed since it was loaded: reload it first, or save into another file with `--out`; \
                 nothing was saved"
            )));
        }
    }
    // All are written before the first one is replaced.
    let new =
        saved.files.iter().map(|file| New::write(Path::new(&file.path), &file.text)).collect::<Result<Vec<_>, _>>()?;
    for (SavedFile { path, before, text }, new) in saved.files.iter().zip(new) {
        new.put()?;
        let lines = similar::capture_diff_slices(
            similar::Algorithm::Patience,
            &before.lines().collect::<Vec<_>>(),
            &text.lines().collect::<Vec<_>>(),
        );
        let changed: usize = lines.iter().filter(|op| op.tag() != similar::DiffTag::Equal).map(lines_of).sum();
        print(&format!("{path}: saved, {} changed\n", plural(changed as u64, "line")))?;
    }
    let json = client.post("/v1/reload", &ReloadRequest::default()).map_err(|error| {
        Error::Failed(format!(
            "the files are saved and not loaded: the live edits go on beside them until a reload: {error}"
        ))
    })?;
    let Reloaded { generation, lost, .. } = client.read(&json)?;
    for line in lost.iter().flat_map(Lost::lines) {
        let _ = writeln!(std::io::stderr(), "! {line}");
    }
    print(&format!("loaded: generation {generation}\n"))
}

fn lines_of(op: &similar::DiffOp) -> usize {
    op.old_range().len().max(op.new_range().len())
}

/// A new text of a file, beside it. Without [`New::put`] it goes again.
struct New {
    beside: PathBuf,
    target: PathBuf,
    path: PathBuf,
}

impl New {
    /// Writes a text beside a file, with the file's owner and mode. The disk may be full: the file stays as it is then.
    fn write(path: &Path, text: &str) -> Result<New, Error> {
        // A link stays one.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let beside = folder.join(format!(".{name}.{}", std::process::id()));
        let before = fs::metadata(&target).ok();
        let mut file =
            fs::File::options().write(true).create_new(true).open(&beside).map_err(|e| unwritten(path, &e))?;
        let new = New { beside, target, path: path.to_owned() };
        let written = (|| {
            if let Some(before) = &before {
                file.set_permissions(before.permissions())?;
                let own = file.metadata()?;
                if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
                    chown(&new.beside, Some(before.uid()), Some(before.gid()))?;
                }
            }
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })();
        written.map(|()| new).map_err(|error| unwritten(path, &error))
    }

    /// Puts the text in the place of the file: another process sees the old text or the new one.
    fn put(self) -> Result<(), Error> {
        fs::rename(&self.beside, &self.target).map_err(|error| unwritten(&self.path, &error))
    }
}

impl Drop for New {
    fn drop(&mut self) {
        // After a rename there is none.
        let _ = fs::remove_file(&self.beside);
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Error {
    Error::Failed(format!("cannot write {}: {error}", path.display()))
}
