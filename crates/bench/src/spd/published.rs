//! The tables of the two commits that gave VPP its caches of policies, with the same cases here beside them: ESP without encryption,
//! one SA, the last of so many policies.

use serde::{Deserialize, Serialize};
use weir_plane::model::{
    AclAction, AclRule, Addresses, Gateway, Origin, Ports, SpdAction, SpdCache, SpdRule, Transport,
};
use weir_plane::node::Node;

use crate::Error;
use crate::esp::captures::{self, LINK, Repeated};
use crate::esp::{Networks, Plan};
use crate::report::figure::Figure;
use crate::report::table::Table;
use crate::turns::{Outcome, Run, Samples};

/// Octets of frames that are encrypted, without their check sequence.
const CLEAR: u32 = 60;

/// Octets of frames of ESP that are decrypted, without their check sequence.
const SEALED: usize = 90;

/// Flows.
const FLOWS: u32 = 10_000;

/// Published for packets that leave: policies, and millions of packets per second without and with the cache, by CPU.
const OUT: [(u32, [[f64; 2]; 3]); 4] = [
    (1, [[5.2, 4.84], [2.81, 2.6], [4.93, 4.48]]),
    (10, [[4.55, 4.84], [2.51, 2.6], [4.29, 4.46]]),
    (100, [[2.11, 4.84], [1.27, 2.6], [2.05, 4.48]]),
    (1000, [[0.3295, 4.84], [0.176_62, 2.6], [0.336_79, 4.47]]),
];

/// Published for packets that come in: policies, and megabits per second without and with the cache, by ThunderX2.
const IN: [(u32, [f64; 2]); 4] =
    [(2, [300.0, 290.0]), (10, [230.0, 290.0]), (100, [70.0, 290.0]), (1000, [8.5, 290.0])];

/// Packets that leave, in millions per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Out {
    /// Policies; packets match the last one.
    pub policies: u32,
    /// Without a cache.
    pub off: f64,
    /// With a cache that has all flows.
    pub cached: f64,
    /// The loss by the cache, in percent of the ticks of all nodes; negative: it is faster.
    pub loss: Figure,
    /// Neoverse N1, ThunderX2 and Skylake, without the cache and with it.
    pub published: [[f64; 2]; 3],
}

/// Packets that come in, in megabits per second of frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct In {
    /// Policies; packets match the last one.
    pub policies: u32,
    /// Decrypted packets do not use the cache.
    pub off: f64,
    /// ThunderX2, without the cache and with it.
    pub published: [f64; 2],
}

/// Measures packets that leave.
pub(super) fn out(turns: usize, windows: usize) -> Result<Vec<Out>, Error> {
    let networks = Networks::of(true);
    let plain = networks.outbound(Plan::null(), FLOWS, CLEAR - LINK)?;
    let mut run = Run::new(&plain)?;
    for (policies, _) in OUT {
        for is_cached in [false, true] {
            let cache = SpdCache { outbound: is_cached, inbound: false, flows: 4 * FLOWS };
            let gateway = with_policies(&plain, &networks, policies, cache);
            run.add(&gateway, &[Node::Ip4SpdOut, Node::EspEncrypt], Outcome::Forwarded)?;
        }
    }
    let samples = run.turns(turns, windows, 2 * FLOWS as usize)?;
    let rate = |own: &Samples| own.rate() / 1e6;
    let rows = OUT.iter().zip(samples.chunks_exact(2)).map(|(&(policies, published), pair)| Out {
        policies,
        off: rate(&pair[0]),
        cached: rate(&pair[1]),
        loss: pair[1].against(&pair[0], |with, without| 100.0 * (with.graph / without.graph - 1.0)),
        published,
    });
    Ok(rows.collect())
}

/// Measures packets that come in.
pub(super) fn inbound(turns: usize, windows: usize) -> Result<Vec<In>, Error> {
    let networks = Networks::of(true);
    let (own, spi) = (networks.own(), Plan::SPI);
    let repeated = Repeated::new(&captures::null(own, networks.inner(), spi, FLOWS as usize, SEALED))?;
    let plain = networks.inbound(Plan::null(), repeated.port.clone())?;
    let mut run = Run::new(&plain)?;
    for (policies, _) in IN {
        let gateway = with_policies(&plain, &networks, policies, SpdCache::default());
        run.add(&gateway, &[Node::Ip4SpdIn, Node::EspDecrypt], Outcome::Forwarded)?;
    }
    let samples = run.turns(turns, windows, 2 * FLOWS as usize)?;
    let rate = |own: &Samples| own.rate() * (8 * SEALED) as f64 / 1e6;
    let rows = IN.iter().zip(&samples).map(|(&(policies, published), own)| In { policies, off: rate(own), published });
    Ok(rows.collect())
}

/// Returns the gateway with so many policies, of which the last one protects.
fn with_policies(plain: &Gateway, networks: &Networks, policies: u32, cache: SpdCache) -> Gateway {
    let mut gateway = plain.clone();
    let spd = &mut gateway.spds[0];
    let none = |number: u32| {
        let port = (number % 1000) as u16;
        let transport =
            Transport::Ports { protocol: 17, source: Ports::Any, destination: Ports::from(port..=port), flags: None };
        let any = AclRule::all(AclAction::Permit, Origin(0));
        let matches = AclRule { from: Addresses::Net(networks.from()), transport, ..any };
        SpdRule::new(SpdAction::Discard, matches)
    };
    spd.rules = (0..policies - 1).map(none).chain(spd.rules.iter().cloned()).collect();
    spd.cache = cache;
    gateway
}

/// The table of packets that leave.
pub(super) fn out_table(rows: &[Out]) -> Table<&Out> {
    let mut table = Table::of(rows)
        .number("Policies", 0, |row| f64::from(row.policies))
        .number("Off", 2, |row| row.off)
        .number("Cache", 2, |row| row.cached)
        .number("Loss_%", 1, |row| row.loss.median);
    for (number, cpu) in ["N1", "TX2", "SKX"].into_iter().enumerate() {
        table = table.number(&format!("{cpu}_off"), 2, |row| row.published[number][0]).number(
            &format!("{cpu}_cache"),
            2,
            |row| row.published[number][1],
        );
    }
    table
}

/// The table of packets that come in.
pub(super) fn in_table(rows: &[In]) -> Table<&In> {
    Table::of(rows)
        .number("Policies", 0, |row| f64::from(row.policies))
        .number("Off", 0, |row| row.off)
        .number("TX2_off", 1, |row| row.published[0])
        .number("TX2_cache", 1, |row| row.published[1])
}
