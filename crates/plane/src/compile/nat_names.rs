//! Names of lists of rules that translate, as the log has them.

use std::sync::Arc;

/// The names of lists, by number. Numbers stay when lists go, as translations that are logged have them. Names beyond the bound
/// share the last number.
pub(super) struct Names(pub(super) Vec<Arc<str>>);

impl Names {
    const MOST: usize = u16::MAX as usize + 1;

    /// Returns the number of a name.
    pub(super) fn number(&mut self, name: &str) -> u16 {
        let known = self.0.iter().position(|own| **own == *name);
        let number = known.unwrap_or(self.0.len()).min(Self::MOST - 1);
        if known.is_none() {
            self.0.truncate(number);
            self.0.push(name.into());
        }
        number as u16
    }
}
