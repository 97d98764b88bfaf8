//! `show nat users`: the inside addresses with the most translations.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};

/// Inside addresses, those with the most translations first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users {
    /// One for each rule at each interface that translates the address.
    pub users: Vec<User>,
}

/// An inside address, and its translations by a rule at an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The address.
    pub address: IpAddr,
    /// The VRF of the address.
    #[serde(default)]
    pub vrf: String,
    /// Its translations now.
    pub translations: u64,
    /// How many it may have.
    pub limit: Option<u32>,
    /// The rule's list.
    pub list: String,
    /// Its id there.
    pub rule: u32,
    /// The interface.
    pub interface: String,
    /// Where the rule was declared.
    pub origin: String,
}

impl Users {
    /// Of the gateway's inside addresses.
    pub fn new(users: Vec<stats::NatUser>) -> Users {
        let user = |own: stats::NatUser| User {
            address: own.address,
            vrf: own.vrf,
            translations: own.translations as u64,
            limit: own.limit,
            list: own.list,
            rule: own.rule,
            interface: own.interface,
            origin: own.origin,
        };
        Users { users: users.into_iter().map(user).collect() }
    }
}

impl Report for Users {
    const SCHEMA: &'static str = "weir.show.nat-users/1";

    fn text(&self) -> String {
        if self.users.is_empty() {
            return "no inside address has translations\n".to_owned();
        }
        let mut table = Table::new(&[
            ("Address", Align::Left),
            ("VRF", Align::Left),
            ("Translations", Align::Right),
            ("Limit", Align::Right),
            ("Rule", Align::Left),
            ("Interface", Align::Left),
        ]);
        for own in &self.users {
            table.row([
                own.address.to_string(),
                own.vrf.clone(),
                own.translations.to_string(),
                own.limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string()),
                format!("{} {}", own.list, own.rule),
                own.interface.clone(),
            ]);
        }
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn a_table_and_json() {
        let users = Users::new(sample::nat_users());
        assert_eq!(
            users.text(),
            "\
Address   VRF  Translations  Limit  Rule    Interface
10.0.0.5  red             2      2  edge 7  wan
fd00::5   red             1      -  edge 7  wan
"
        );
        assert_eq!(read::<Users>(&json(&users)).unwrap(), users);
        assert_eq!(Users { users: vec![] }.text(), "no inside address has translations\n");
    }
}
