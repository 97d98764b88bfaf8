//! The usual arrangement: a host on the left, weir, a host on the right.
//!
//! ```text
//! left ── e0 ── left │ weir │ right ── e0 ── right
//!   10.1.0.2     10.1.0.1   10.2.0.1     10.2.0.2
//!   2001:db8:1::2      ::1  2001:db8:2::1      ::2
//! ```

use super::{Lab, Link, Space};

/// The options of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineOptions {
    /// Largest packet on the left.
    pub(crate) left_mtu: u32,
    /// Largest packet on the right.
    pub(crate) right_mtu: u32,
    /// Workers, and receive queues of each port.
    pub(crate) workers: u16,
    /// All hosts have static neighbours, and send no solicitations.
    pub(crate) fixed_neighbors: bool,
}

impl Default for LineOptions {
    fn default() -> Self {
        LineOptions { left_mtu: 1500, right_mtu: 1500, workers: 1, fixed_neighbors: false }
    }
}

/// The three hosts.
pub(crate) struct Line {
    /// Has 10.1.0.2 and 2001:db8:1::2 on `e0`, and weir as its default router.
    pub(crate) left: Space,
    /// Where weir is to run, over the devices `left` and `right`.
    pub(crate) gate: Space,
    /// Has 10.2.0.2 and 2001:db8:2::2 on `e0`, and weir as its default router.
    pub(crate) right: Space,
    link: Link,
    options: LineOptions,
}

impl Line {
    /// Makes the hosts and their links. Devices of weir's host have no addresses of the kernel's.
    pub(crate) fn new(lab: &mut Lab, options: LineOptions) -> Line {
        let (left, gate, right) = (lab.space("left"), lab.space("gate"), lab.space("right"));
        gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
        lab.link((&left, "e0"), (&gate, "left"), options.left_mtu);
        let link = lab.link((&right, "e0"), (&gate, "right"), options.right_mtu);
        dress(&left, 1, options);
        dress(&right, 2, options);
        Line { left, gate, right, link, options }
    }

    /// Makes the link on the right again, after it was deleted.
    pub(crate) fn make_right(&self) {
        self.link.make((&self.right, "e0"), (&self.gate, "right"));
    }

    /// Gives the host on the right the addresses and routes that the kernel took from it when its link went.
    pub(crate) fn dress_right(&self) {
        dress(&self.right, 2, self.options);
    }

    /// The usual configuration: everything but routes beyond the two links.
    pub(crate) fn config(&self) -> String {
        let LineOptions { left_mtu, right_mtu, workers, fixed_neighbors } = self.options;
        let mut config = format!("version = 1\n\n[workers]\ncount = {workers}\n");
        for (name, side, mtu) in [("left", 1, left_mtu), ("right", 2, right_mtu)] {
            config += &format!(
                r#"
[[interface]]
name = "{name}"
port = {{ af-packet = "{name}" }}
queues = {workers}
mtu = {mtu}
address = ["10.{side}.0.1/24", "2001:db8:{side}::1/64"]
"#
            );
        }
        if fixed_neighbors {
            for (name, side) in [("left", 1), ("right", 2)] {
                for address in [format!("10.{side}.0.2"), format!("2001:db8:{side}::2")] {
                    config += &format!(
                        r#"
[[neighbor]]
interface = "{name}"
address = "{address}"
mac = "02:00:00:00:{side:02x}:01"
"#
                    );
                }
            }
        }
        config
    }
}

/// Gives a host its addresses and its default router, unless it has them.
fn dress(space: &Space, side: u8, options: LineOptions) {
    space.ip(&format!("address replace 10.{side}.0.2/24 dev e0"));
    space.ip(&format!("address replace 2001:db8:{side}::2/64 dev e0 nodad"));
    space.ip(&format!("route replace default via 10.{side}.0.1"));
    space.ip(&format!("route replace default via 2001:db8:{side}::1"));
    if options.fixed_neighbors {
        for address in [format!("10.{side}.0.1"), format!("2001:db8:{side}::1")] {
            space.ip(&format!("neighbor replace {address} lladdr 02:00:00:00:{side:02x}:02 dev e0 nud permanent"));
        }
    }
}
