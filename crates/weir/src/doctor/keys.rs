//! The key files of SAs.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Finding;
use super::state::{Owner, in_shell};

const SUBJECT: &str = "ipsec";

/// Bits of a mode: who may read a file, and who may pass through a directory.
const READ: u32 = 0o4;
const SEARCH: u32 = 0o1;

/// Examines the files: a reload reads them again, as the user of the gateway and without root's powers.
pub(super) fn judge(files: &[PathBuf], owner: Owner) -> Vec<Finding> {
    let mut all: Vec<&PathBuf> = files.iter().collect();
    all.sort_unstable();
    all.dedup();
    let found: Vec<Finding> = all.into_iter().filter_map(|file| judge_one(file, owner)).collect();
    match found.is_empty() {
        true if files.is_empty() => Vec::new(),
        true => vec![Finding::fine(SUBJECT, format!("the user {} can read the key files", owner.user))],
        false => found,
    }
}

fn judge_one(file: &Path, owner: Owner) -> Option<Finding> {
    let Owner { user, group } = owner;
    let (path, written) = (file.display(), in_shell(file));
    let problem = |what: String| Finding::problem(SUBJECT, format!("{what}: each reload fails"));
    let metadata = match fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) => return Some(problem(format!("cannot examine the key file {path}: {error}"))),
    };
    if metadata.uid() != user {
        let what = format!("the key file {path} is of the user {}, not of {user}", metadata.uid());
        return Some(problem(what).mended_by(format!("chown {user}:{group} {written}")));
    }
    if !may(&metadata, owner, READ) {
        let what = format!("the user {user} cannot read the key file {path} (mode {:04o})", metadata.mode() & 0o7777);
        return Some(problem(what).mended_by(format!("chmod 600 {written}")));
    }
    match closed(file, owner) {
        Ok(None) => None,
        Ok(Some(folder)) => Some(problem(format!(
            "the user {user} cannot reach the key file {path}: the directory {} does not let it through",
            folder.display()
        ))),
        Err(error) => Some(problem(format!("cannot examine the directories of the key file {path}: {error}"))),
    }
}

/// The first directory on the way to a file that a user may not pass through.
fn closed(file: &Path, owner: Owner) -> io::Result<Option<PathBuf>> {
    let whole = fs::canonicalize(file)?;
    let mut folders: Vec<&Path> = whole.ancestors().skip(1).collect();
    folders.reverse();
    for folder in folders {
        if !may(&fs::metadata(folder)?, owner, SEARCH) {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(None)
}

/// Returns whether the mode lets a user and a group do something.
fn may(metadata: &Metadata, owner: Owner, bit: u32) -> bool {
    let shift = match (metadata.uid() == owner.user, metadata.gid() == owner.group) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    (metadata.mode() >> shift) & bit != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::doctor::Level;

    #[test]
    fn key_files_are_of_the_user_and_within_its_reach() {
        let folder = tempfile::tempdir().unwrap();
        let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let keys = folder.path().join("the keys");
        fs::create_dir(&keys).unwrap();
        let file = keys.join("ab.key");
        fs::write(&file, "00").unwrap();
        set_mode(&file, 0o600);
        let own = Owner::of(None);
        let other = Owner { user: own.user + 1, group: own.group + 1 };
        let found = |owner| judge(&[file.clone(), file.clone()], owner);
        let one = |owner| match &found(owner)[..] {
            [found] => found.clone(),
            other => panic!("{other:?}"),
        };
        assert!(judge(&[], own).is_empty());
        assert_eq!(one(own).level, Level::Fine);
        let foreign = one(other);
        assert!(foreign.level == Level::Problem && foreign.what.ends_with(": each reload fails"));
        let written = format!("'{}'", file.display());
        assert_eq!(foreign.command.unwrap(), format!("chown {}:{} {written}", other.user, other.group));
        set_mode(&file, 0o200);
        let unreadable = one(own);
        assert!(unreadable.what.contains("mode 0200"), "{}", unreadable.what);
        assert_eq!(unreadable.command.unwrap(), format!("chmod 600 {written}"));
        set_mode(&file, 0o400);
        assert_eq!(one(own).level, Level::Fine);
        set_mode(&keys, 0o600);
        let closed = judge_one(&file, own);
        set_mode(&keys, 0o700);
        // A user that is not root cannot look into the directory, and says so.
        let closed = closed.unwrap();
        assert!(closed.level == Level::Problem && closed.command.is_none(), "{closed:?}");
        assert!(!may(&fs::metadata(&keys).unwrap(), other, SEARCH) && may(&fs::metadata("/").unwrap(), other, SEARCH));
        assert!(judge(&[keys.join("none")], own)[0].what.contains("cannot examine the key file"));
    }
}
