//! Keys of SAs from standard input, which become key files: so that no key stands in an argument or in a shell's history.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use toml::de::DeTable;
use zeroize::Zeroizing;

use super::error::Error;

/// The source of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum KeySource {
    /// Standard input
    #[value(name = "-")]
    Standard,
}

/// The greatest number of octets of all keys with white space.
const LARGEST: u64 = 8192;

/// The key files of a pair, in the order of their keys: that of `out`, then that of `in`.
fn key_files(declaration: &str) -> Result<Vec<PathBuf>, Error> {
    let document = DeTable::parse(declaration)
        // The gateway reports it with its place; nothing is written here.
        .map_err(|error| Error::Failed(format!("the declaration is no TOML: {}", error.message())))?;
    let mut files = Vec::new();
    for part in ["out", "in"] {
        let Some(own) = document.get_ref().get(part) else { continue };
        let file = own.get_ref().as_table().and_then(|own| own.get("key-file")?.get_ref().as_str());
        let Some(file) = file else {
            return Err(Error::Failed(format!("`{part}` names no `key-file`, into which its key could be written")));
        };
        let path = PathBuf::from(file);
        if !path.is_absolute() {
            let message = format!("`key-file = \"{file}\"` of `{part}`: with --key, write the whole path, from `/` on");
            return Err(Error::Failed(message));
        }
        files.push(path);
    }
    match files.as_slice() {
        [] => Err(Error::Failed("the declaration has neither `out` nor `in`".to_owned())),
        [one, other] if one == other => {
            Err(Error::Failed("`out` and `in` name one `key-file`: they need different keys".to_owned()))
        }
        _ => Ok(files),
    }
}

/// Returns the lines of a text that are not blank.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split(|octet| *octet == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).collect()
}

/// Key files that were made for a pair. They are removed again unless they are kept.
#[derive(Debug, Default)]
pub(super) struct MadeKeys {
    files: Vec<PathBuf>,
}

impl MadeKeys {
    /// Reads a line of standard input for each key file that the declaration names, and writes the files. The owner of the
    /// control socket, as whom the gateway runs, owns them, and nobody else can read them.
    ///
    /// # Errors
    /// If the declaration names no such files, one of them exists, there is another number of keys, or a file cannot be written.
    /// No message has anything of a key.
    pub(super) fn read(declaration: &str, socket: &Path) -> Result<MadeKeys, Error> {
        let files = key_files(declaration)?;
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Err(Error::Failed("a terminal would show the keys: send them by a pipe or from a file".to_owned()));
        }
        // The buffer never grows, so no copy of it is left behind.
        let mut text = Zeroizing::new(Vec::with_capacity(LARGEST as usize + 64));
        let read = stdin.lock().take(LARGEST + 1).read_to_end(&mut text);
        read.map_err(|error| Error::Failed(format!("cannot read standard input: {error}")))?;
        if text.len() as u64 > LARGEST {
            return Err(Error::Failed(format!("standard input has more than {LARGEST} octets")));
        }
        MadeKeys::write(files, &lines(&text), socket)
    }

    fn write(files: Vec<PathBuf>, keys: &[&[u8]], socket: &Path) -> Result<MadeKeys, Error> {
        if keys.len() != files.len() {
            let wanted = if files.len() == 1 { "one line" } else { "two lines, that of `out` first" };
            let found = keys.len();
            return Err(Error::Failed(format!("standard input has {found} lines with keys; the pair needs {wanted}")));
        }
        let mut made = MadeKeys::default();
        for (file, key) in files.into_iter().zip(keys) {
            made.make(file, key, socket)?;
        }
        Ok(made)
    }

    fn make(&mut self, file: PathBuf, key: &[u8], socket: &Path) -> Result<(), Error> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::Failed(format!("{} exists: name a new file, as the keys in it may be in use", file.display()))
            }
            _ => Error::Failed(format!("cannot write {}: {error}", file.display())),
        };
        let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file).map_err(failed)?;
        self.files.push(file.clone());
        let owner = fs::metadata(socket).map_err(failed)?;
        if owner.uid() != made.metadata().map_err(failed)?.uid() {
            fchown(&made, Some(owner.uid()), None).map_err(failed)?;
        }
        made.write_all(key).and_then(|()| made.write_all(b"\n")).and_then(|()| made.sync_all()).map_err(failed)
    }

    /// Keeps the files: the gateway has the pair, or may have it.
    pub(super) fn keep(mut self) {
        self.files.clear();
    }
}

impl Drop for MadeKeys {
    fn drop(&mut self) {
        for file in &self.files {
            // The command has failed and says why. A file that stays is found by its name.
            let _ = fs::remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn message(declaration: &str) -> String {
        key_files(declaration).unwrap_err().to_string()
    }

    #[test]
    fn files_are_those_of_both_directions_with_whole_paths() {
        let both = "in = { spi = 1, key-file = \"/k/in\" }\nout = { spi = 2, key-file = \"/k/out\" }";
        assert_eq!(key_files(both).unwrap(), ["/k/out", "/k/in"].map(PathBuf::from));
        assert!(message("out = { spi = 2, key-file = \"out\" }").contains("write the whole path"));
        assert!(message("out = { spi = 2 }").contains("`out` names no `key-file`"));
        assert!(message("mode = \"tunnel\"").contains("neither"));
        assert!(message("out = {").contains("no TOML"));
        assert!(message(&both.replace("/k/in", "/k/out")).contains("different keys"));
    }

    #[test]
    fn files_go_unless_they_are_kept_and_none_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let files = || ["out", "in"].map(|name| folder.path().join(name)).to_vec();
        let text = b"  00 11\r\n\n2233\n";
        drop(MadeKeys::write(files(), &lines(text), folder.path()).unwrap());
        assert!(files().iter().all(|file| !file.exists()));
        MadeKeys::write(files(), &lines(text), folder.path()).unwrap().keep();
        let read: Vec<String> = files().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        assert_eq!(read, ["00 11\n", "2233\n"]);
        assert!(files().iter().all(|file| fs::metadata(file).unwrap().permissions().mode() & 0o777 == 0o600));
        let refused = MadeKeys::write(files(), &lines(text), folder.path()).unwrap_err().to_string();
        assert!(refused.contains("exists: name a new file"), "{refused}");
        assert!(files().iter().all(|file| file.exists()), "files of others stay");
        let refused = MadeKeys::write(files(), &lines(b"0011\n"), folder.path()).unwrap_err().to_string();
        assert_eq!(refused, "standard input has 1 lines with keys; the pair needs two lines, that of `out` first");
    }
}
