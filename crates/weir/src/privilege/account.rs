//! The user that the process becomes.

use nix::unistd::{Group, User};
use rustix::process::{Gid, Uid};

use crate::config::Service;

/// The user that a gateway started by root becomes if its configuration names none, where there is such a user.
const USUAL: &str = "weir";

/// A user and its only group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The user's name, or its number if it has none.
    pub name: String,
    /// The user.
    pub user: Uid,
    /// The group.
    pub group: Gid,
}

/// Why there is no such account.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The system knows no user of this name.
    #[error("`[service]` names the user `{0}`, which does not exist")]
    NoUser(String),
    /// The system knows no group of this name.
    #[error("`[service]` names the group `{0}`, which does not exist")]
    NoGroup(String),
    /// A number without an entry has no group of its own.
    #[error("`[service]` names the user {0}, which has no entry in the system's list of users: name its `group`, too")]
    Groupless(String),
    /// The system's list of users or groups cannot be read.
    #[error("cannot look up `{name}`: {source}")]
    LookUp {
        /// The user or group.
        name: String,
        /// The error of the system.
        source: nix::Error,
    },
}

impl Account {
    /// Returns the configured user, or the usual one if none is configured; `None` if that does not exist.
    ///
    /// # Errors
    /// If a configured user or group does not exist, or the system's lists cannot be read.
    pub fn of(service: &Service) -> Result<Option<Account>, AccountError> {
        let name = service.user.as_deref().unwrap_or(USUAL);
        let look_up = |name: &str| {
            let name = name.to_owned();
            move |source| AccountError::LookUp { name, source }
        };
        let entry = match number(name) {
            Some(number) => User::from_uid(number.into()),
            None => User::from_name(name),
        };
        let entry = entry.map_err(look_up(name))?;
        let user = match (&entry, number(name)) {
            (Some(entry), _) => entry.uid.as_raw(),
            (None, Some(number)) => number,
            (None, None) if service.user.is_none() => return Ok(None),
            (None, None) => return Err(AccountError::NoUser(name.to_owned())),
        };
        let group = match (&service.group, &entry) {
            (Some(group), _) => match number(group) {
                Some(number) => number,
                None => match Group::from_name(group).map_err(look_up(group))? {
                    Some(entry) => entry.gid.as_raw(),
                    None => return Err(AccountError::NoGroup(group.clone())),
                },
            },
            (None, Some(entry)) => entry.gid.as_raw(),
            (None, None) => return Err(AccountError::Groupless(name.to_owned())),
        };
        let name = entry.map_or_else(|| name.to_owned(), |entry| entry.name);
        Ok(Some(Account { name, user: Uid::from_raw(user), group: Gid::from_raw(group) }))
    }
}

/// Parses a user or group given by its number. The greatest number stands for no user (setresuid(2)).
fn number(name: &str) -> Option<u32> {
    name.parse().ok().filter(|&number| number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(user: Option<&str>, group: Option<&str>) -> Result<Option<Account>, AccountError> {
        Account::of(&Service { user: user.map(str::to_owned), group: group.map(str::to_owned) })
    }

    #[test]
    fn names_and_numbers() {
        let root = account(Some("root"), None).unwrap().unwrap();
        assert_eq!((root.name.as_str(), root.user.as_raw(), root.group.as_raw()), ("root", 0, 0));
        assert_eq!(account(Some("0"), Some("root")).unwrap(), Some(root));
        let nameless = account(Some("3999999999"), Some("7")).unwrap().unwrap();
        assert_eq!((nameless.name.as_str(), nameless.user.as_raw()), ("3999999999", 3_999_999_999));
        assert_eq!(nameless.group.as_raw(), 7);
    }

    #[test]
    fn nobody_is_made_up() {
        let said = |user, group| account(user, group).unwrap_err().to_string();
        assert_eq!(said(Some("no-such-user"), None), "`[service]` names the user `no-such-user`, which does not exist");
        assert_eq!(
            said(Some("root"), Some("no-such-group")),
            "`[service]` names the group `no-such-group`, which does not exist"
        );
        assert!(said(Some("3999999999"), None).ends_with("name its `group`, too"));
        assert!(said(Some("4294967295"), None).ends_with("does not exist"), "-1 would leave the user as it is");
    }
}
