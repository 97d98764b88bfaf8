//! `show crypto`: the engines of IPsec, and the SAs that use them.

use serde::{Deserialize, Serialize};
use weir_crypto::Algorithm;
use weir_crypto::engines::Known;
use weir_plane::stats::SaStats;

use super::Report;
use super::table::{Align, Table};

/// The engines, the fastest first. An SA gets the first one that is offered and supports its algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crypto {
    /// Each engine.
    pub engines: Vec<Engine>,
}

/// An engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// Its instructions, or its library.
    pub about: String,
    /// Why it is not offered; `None`: it is.
    pub missing: Option<String>,
    /// The algorithms that it supports.
    pub algorithms: Vec<String>,
    /// SAs that use it, each direction for itself.
    pub sas: u64,
}

impl Crypto {
    /// Of these engines and pairs of SAs.
    pub fn new(engines: &[Known], sas: &[SaStats]) -> Crypto {
        let used = |name: &str| {
            let outbound = sas.iter().filter_map(|sa| Some(sa.outbound.as_ref()?.engine));
            let inbound = sas.iter().filter_map(|sa| Some(sa.inbound.as_ref()?.engine));
            outbound.chain(inbound).filter(|&engine| engine == name).count() as u64
        };
        let engine = |known: &Known| Engine {
            name: known.engine.name().to_owned(),
            about: known.engine.about().to_owned(),
            missing: known.missing.map(|missing| missing.to_string()),
            algorithms: Algorithm::all()
                .iter()
                .filter(|own| known.engine.supports(**own))
                .map(Algorithm::to_string)
                .collect(),
            sas: used(known.engine.name()),
        };
        Crypto { engines: engines.iter().map(engine).collect() }
    }
}

impl Report for Crypto {
    const SCHEMA: &'static str = "weir.show.crypto/1";

    fn text(&self) -> String {
        let mut table = Table::new(&[
            ("Engine", Align::Left),
            ("SAs", Align::Right),
            ("Algorithms", Align::Right),
            ("Offered", Align::Left),
            ("Made of", Align::Left),
        ]);
        for Engine { name, about, missing, algorithms, sas } in &self.engines {
            let offered = missing.as_ref().map_or("yes".to_owned(), |missing| format!("no: {missing}"));
            table.row([name.clone(), sas.to_string(), algorithms.len().to_string(), offered, about.clone()]);
        }
        table.text()
    }
}
