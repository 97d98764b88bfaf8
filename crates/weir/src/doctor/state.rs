//! The directory in which sequence numbers of SAs are reserved.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Finding;
use crate::privilege::Account;
use crate::reservation::{self, Unfit};

const SUBJECT: &str = "ipsec";
const FATE: &str = "SAs send no packets (esp-unreserved)";

/// The user and the group of the gateway, to whom the directory and key files have to belong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) user: u32,
    pub(super) group: u32,
}

impl Owner {
    /// The account of the gateway if root starts it, else who runs this.
    pub(super) fn of(account: Option<&Account>) -> Owner {
        let own = (rustix::process::geteuid(), rustix::process::getegid());
        let (user, group) = account.filter(|_| own.0.is_root()).map_or(own, |account| (account.user, account.group));
        Owner { user: user.as_raw(), group: group.as_raw() }
    }
}

/// Examines the directory, and its files of the keys with these digests.
pub(super) fn judge(folder: &Path, owner: Owner, keys: &[[u8; 16]]) -> Finding {
    let (path, written) = (folder.display(), in_shell(folder));
    let Owner { user, group } = owner;
    let problem = |what: String| Finding::problem(SUBJECT, format!("{what}: {FATE}"));
    let refused = |path: &Path, error: io::Error| {
        problem(format!("no sequence numbers can be reserved in {}: {error}", path.display()))
    };
    match reservation::examine(folder).and_then(|()| Ok(foreign(folder, user)?)) {
        Ok(None) => match reservation::examine_files(folder, keys.iter().copied()) {
            Ok(false) => Finding::fine(SUBJECT, format!("sequence numbers can be reserved in {path}")),
            Ok(true) => {
                let what = format!("a gateway uses {path} already, and a second one would reserve no sequence numbers there");
                Finding::advice(SUBJECT, what)
            }
            Err((path, error)) => refused(&path, error),
        },
        Ok(Some(found)) => problem(format!("{} is of the user {}, not of {user}", found.0, found.1))
            .mended_by(format!("chown -R {user}:{group} {written}")),
        Err(Unfit::Missing(_)) => problem(format!(
            "there is no directory {path} for sequence numbers (if SAs ever sent with the keys, replace these at both ends first)"
        ))
        .mended_by(format!("install -d -m 700 -o {user} -g {group} {written}")),
        Err(Unfit::Open(mode)) => {
            problem(format!("others than its owner may write to {path}, the directory for sequence numbers (mode {mode:04o})"))
                .mended_by(format!("chmod 700 {written}"))
        }
        Err(Unfit::System(error)) => refused(folder, error),
    }
}

/// The directory, or a file in it, that belongs to another user; and that user.
fn foreign(folder: &Path, user: u32) -> io::Result<Option<(String, u32)>> {
    let files = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    for path in std::iter::once(Ok(folder.to_owned())).chain(files) {
        let path = path?;
        let owner = fs::symlink_metadata(&path)?.uid();
        if owner != user {
            return Ok(Some((path.display().to_string(), owner)));
        }
    }
    Ok(None)
}

/// A path as a word of the shell.
pub(super) fn in_shell(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%,".contains(letter);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::doctor::Level;

    #[test]
    fn numbers_need_a_directory_of_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let set_mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        set_mode(0o700);
        let own = Owner::of(None);
        let other = Owner { user: own.user + 1, group: 7 };
        let there = |owner| judge(folder.path(), owner, &[]);
        fs::write(folder.path().join("keys"), "").unwrap();
        assert_eq!(there(own).level, Level::Fine);
        let found = there(other);
        assert_eq!(found.level, Level::Problem);
        assert_eq!(found.command.unwrap(), format!("chown -R {}:7 {}", other.user, folder.path().display()));
        set_mode(0o777);
        let open = there(own);
        assert!(open.what.contains("(mode 0777)"), "{open:?}");
        assert_eq!(open.command.unwrap(), format!("chmod 700 {}", folder.path().display()));
        set_mode(0o700);
        let file = judge(&folder.path().join("keys"), own, &[]);
        assert_eq!((file.level, file.command), (Level::Problem, None));
        let missing = judge(&folder.path().join("not there"), own, &[]);
        assert!(missing.what.contains("replace these at both ends first"));
        let command =
            format!("install -d -m 700 -o {} -g {} '{}/not there'", own.user, own.group, folder.path().display());
        assert_eq!(missing.command.unwrap(), command);
    }

    #[test]
    fn files_of_keys_are_as_the_start_needs_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let there = || judge(folder.path(), Owner::of(None), &[[7; 16], [8; 16]]);
        let file = folder.path().join("07".repeat(16));
        let list = folder.path().join("keys");
        let sound = || {
            fs::write(&list, "07".repeat(16) + "\n").unwrap();
            fs::write(&file, "weir sequence 1 4711\n").unwrap();
        };
        sound();
        assert_eq!(there().level, Level::Fine, "the second key is new");
        let refused = |place: &Path, what: &str| {
            let found = there();
            let says = format!("in {}: {what}", place.display());
            assert!(found.level == Level::Problem && found.what.contains(&says), "{found:?}");
            sound();
        };
        fs::remove_file(&file).unwrap();
        refused(&file, "it is missing, and nobody knows");
        fs::write(&file, "garbage").unwrap();
        refused(&file, "it is damaged");
        fs::write(&list, "garbage").unwrap();
        refused(folder.path(), "its file `keys` is damaged");
        fs::remove_file(&list).unwrap();
        refused(folder.path(), "its file `keys` is missing");
        let gateway = fs::File::open(folder.path()).unwrap();
        gateway.lock().unwrap();
        let used = there();
        assert!(used.level == Level::Advice && used.what.starts_with("a gateway uses "), "{used:?}");
        drop(gateway);
        assert_eq!(there().level, Level::Fine);
        assert!(fs::File::open(folder.path()).unwrap().try_lock().is_ok(), "no lock stays");
    }

    #[test]
    fn paths_are_words_of_the_shell() {
        assert_eq!(in_shell(Path::new("/var/lib/weir")), "/var/lib/weir");
        assert_eq!(in_shell(Path::new("/a b'c")), r"'/a b'\''c'");
    }
}
