//! The directory in which sequence numbers of SAs are reserved.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Finding;
use crate::privilege::Account;

/// Examines the directory, for the user that the gateway becomes.
pub(super) fn judge(folder: &Path, account: Option<&Account>) -> Finding {
    const SUBJECT: &str = "ipsec";
    const FATE: &str = "SAs send no packets (esp-unreserved)";
    let path = folder.display();
    let owner = account.map_or(String::new(), |account| format!(" -o {} -g {}", account.user, account.group));
    match fs::metadata(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = format!("there is no directory {path} for sequence numbers: {FATE}");
            Finding::problem(SUBJECT, what).mended_by(format!("install -d -m 700{owner} {path}"))
        }
        Err(error) => Finding::problem(SUBJECT, format!("the directory {path} for sequence numbers: {error}: {FATE}")),
        Ok(found) if !found.is_dir() => {
            Finding::problem(SUBJECT, format!("{path} is to be a directory for sequence numbers, and is none: {FATE}"))
        }
        Ok(found) => match account.filter(|account| found.uid() != account.user.as_raw()) {
            Some(account) => {
                let what =
                    format!("the directory {path} for sequence numbers is not of the user {}: {FATE}", account.name);
                Finding::problem(SUBJECT, what).mended_by(format!("chown -R {}:{} {path}", account.user, account.group))
            }
            None => Finding::fine(SUBJECT, format!("sequence numbers are reserved in {path}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Gid, Uid};

    use super::*;
    use crate::doctor::Level;

    #[test]
    fn numbers_need_a_directory_of_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let of = |user: u32| Account { name: "weir".to_owned(), user: Uid::from_raw(user), group: Gid::from_raw(7) };
        let owner = fs::metadata(folder.path()).unwrap().uid();
        let there = |account: Option<&Account>| judge(folder.path(), account);
        assert_eq!(there(None).level, Level::Fine);
        assert_eq!(there(Some(&of(owner))).level, Level::Fine);
        let other = there(Some(&of(owner + 1)));
        assert_eq!(other.level, Level::Problem);
        assert_eq!(other.command.unwrap(), format!("chown -R {}:7 {}", owner + 1, folder.path().display()));
        let none = folder.path().join("none");
        let missing = judge(&none, Some(&of(5)));
        assert_eq!(missing.command.unwrap(), format!("install -d -m 700 -o 5 -g 7 {}", none.display()));
        assert!(missing.what.contains("there is no directory"));
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(judge(&file, None).what.contains("is none"));
    }
}
