//! `show buffers`: packet buffers, and how many are free.

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};

/// The pools of packet buffers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Buffers {
    /// Whether they lie in reserved huge pages.
    pub huge_pages: bool,
    /// Each pool.
    pub pools: Vec<Pool>,
}

/// A pool of buffers of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// `small` or `large`.
    pub name: String,
    /// Buffers in all.
    pub total: usize,
    /// Buffers in the pool now. Workers keep a few more in caches of their own.
    pub free: usize,
}

impl Buffers {
    /// Of a snapshot.
    pub fn new(snapshot: &stats::Snapshot) -> Self {
        let pool = |name: &str, (total, free)| Pool { name: name.to_owned(), total, free };
        let stats::BufferStats { small, large, huge_pages } = snapshot.buffers;
        Buffers { huge_pages, pools: vec![pool("small", small), pool("large", large)] }
    }
}

impl Report for Buffers {
    const SCHEMA: &'static str = "weir.show.buffers/1";

    fn text(&self) -> String {
        let mut table = Table::new(&[("Pool", Align::Left), ("Total", Align::Right), ("Free", Align::Right)]);
        for Pool { name, total, free } in &self.pools {
            table.row([name.clone(), total.to_string(), free.to_string()]);
        }
        let pages = if self.huge_pages { "reserved huge pages" } else { "ordinary pages, or transparent huge ones" };
        format!("{}in {pages}\n", table.text())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_a_pool() {
        let buffers = Buffers::new(&sample::snapshot());
        assert_eq!(
            buffers.text(),
            "\
Pool   Total  Free
small   8192  8000
large     64    64
in ordinary pages, or transparent huge ones
"
        );
        assert_eq!(read::<Buffers>(&json(&buffers)).unwrap(), buffers);
    }
}
