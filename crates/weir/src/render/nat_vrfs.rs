//! `show nat vrfs`: the VRFs that translate, with their limits.

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};

/// The VRFs that translate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatVrfs {
    /// In the order in which they began to translate.
    pub vrfs: Vec<Vrf>,
}

/// A VRF, and the translations whose first packets came in by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Vrf {
    /// Its name.
    pub vrf: String,
    /// Its translations now.
    pub translations: u64,
    /// How many it may have.
    pub limit: Option<u32>,
    /// Packets beyond the limit.
    pub limited: u64,
}

impl NatVrfs {
    /// Of the gateway's VRFs.
    pub fn new(vrfs: Vec<stats::NatVrf>) -> NatVrfs {
        let vrf = |own: stats::NatVrf| Vrf {
            vrf: own.vrf,
            translations: own.translations as u64,
            limit: own.limit,
            limited: own.limited,
        };
        NatVrfs { vrfs: vrfs.into_iter().map(vrf).collect() }
    }
}

impl Report for NatVrfs {
    const SCHEMA: &'static str = "weir.show.nat-vrfs/1";

    fn text(&self) -> String {
        if self.vrfs.is_empty() {
            return "no VRF translates\n".to_owned();
        }
        let mut table = Table::new(&[
            ("VRF", Align::Left),
            ("Translations", Align::Right),
            ("Limit", Align::Right),
            ("Limited", Align::Right),
        ]);
        let number = |own: Option<u32>| own.map_or_else(|| "-".to_owned(), |own| own.to_string());
        for own in &self.vrfs {
            table.row([own.vrf.clone(), own.translations.to_string(), number(own.limit), own.limited.to_string()]);
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
        let vrfs = NatVrfs::new(sample::nat_vrfs());
        assert_eq!(
            vrfs.text(),
            "\
VRF      Translations  Limit  Limited
default             0      -        0
red                 3      4        7
"
        );
        assert_eq!(read::<NatVrfs>(&json(&vrfs)).unwrap(), vrfs);
        assert_eq!(NatVrfs { vrfs: vec![] }.text(), "no VRF translates\n");
    }
}
