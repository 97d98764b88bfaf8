//! The demonstration: a gateway that needs no file, no privileges and no interface.

use crate::config::{self, Loaded};

/// Its configuration, as a user would write it.
pub const CONFIG: &str = include_str!("demo.toml");

/// Reads the built-in configuration.
pub fn load() -> Loaded {
    config::parse_str("demo.toml", CONFIG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_valid_and_nothing_is_odd_about_it() {
        let loaded = load();
        assert_eq!(loaded.text(false), "");
        assert!(loaded.gateway.is_some());
    }
}
