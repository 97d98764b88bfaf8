//! `weir check`: everything that is wrong with a configuration, in one pass, without privileges.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use weir_plane::model::{Gateway, InterfaceKind};

use super::Exit;
use crate::config::{self, plural};

/// Reports every error in a configuration
#[derive(Debug, Args)]
pub struct Check {
    /// The configuration, a TOML file
    file: PathBuf,
    /// Write the findings as JSON to standard output
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self) -> Exit {
        let loaded = config::check(&self.file);
        let written = if self.json {
            writeln!(std::io::stdout(), "{}", loaded.json())
        } else {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
            write!(std::io::stderr(), "{}", loaded.text(colour)).and_then(|()| match &loaded.gateway {
                Some(gateway) => writeln!(std::io::stdout(), "{}", summary(gateway)),
                None => Ok(()),
            })
        };
        match (written, loaded.gateway) {
            (_, None) => Exit::InvalidConfig,
            (Err(_), Some(_)) => Exit::Failed,
            (Ok(()), Some(_)) => Exit::Done,
        }
    }
}

/// `valid: 2 interfaces, 1 VRF, 3 routes, 1 neighbour, 1 worker`, and what there is of policies and SAs.
fn summary(gateway: &Gateway) -> String {
    let mut parts = vec![
        plural(gateway.interfaces.len(), "interface"),
        plural(gateway.vrfs.len(), "VRF"),
        plural(gateway.routes.len(), "route"),
        plural(gateway.neighbors.len(), "neighbour"),
        plural(usize::from(gateway.workers.count), "worker"),
    ];
    if !gateway.sav.is_empty() {
        let lists = gateway.sav.iter().filter_map(|policy| policy.mechanism.rules());
        // A rule for every source has an entry for each family.
        let rules = lists.map(|rules| rules.list.chunk_by(|a, b| a.origin == b.origin).count()).sum();
        let policies = if gateway.sav.len() == 1 { "policy" } else { "policies" };
        parts.push(format!("{} {policies} with {}", gateway.sav.len(), plural(rules, "rule")));
    }
    if !gateway.acls.is_empty() {
        let rules = gateway.acls.iter().map(|list| list.rules.len()).sum();
        parts.push(format!("{} with {}", plural(gateway.acls.len(), "access list"), plural(rules, "rule")));
    }
    if !gateway.nat.is_empty() {
        let rules = gateway.nat.iter().map(|list| list.rules.len()).sum();
        parts.push(format!("{} with {}", plural(gateway.nat.len(), "NAT list"), plural(rules, "rule")));
    }
    if !gateway.spds.is_empty() {
        let rules = gateway.spds.iter().map(|spd| spd.rules.len()).sum();
        parts.push(format!("{} with {}", plural(gateway.spds.len(), "SPD"), plural(rules, "rule")));
    }
    if !gateway.sas.is_empty() {
        let pairs = if gateway.sas.len() == 1 { "pair" } else { "pairs" };
        parts.push(format!("{} {pairs} of SAs", gateway.sas.len()));
    }
    let tunnels = gateway.interfaces.iter().filter(|own| matches!(own.kind, InterfaceKind::Tunnel(_))).count();
    if tunnels > 0 {
        parts.push(plural(tunnels, "tunnel"));
    }
    if !gateway.bridges.is_empty() {
        parts.push(plural(gateway.bridges.len(), "bridge"));
    }
    if !gateway.allowlists.is_empty() {
        parts.push(plural(gateway.allowlists.len(), "allowlist"));
    }
    if !gateway.classify.is_empty() {
        let sessions = gateway.classify.iter().map(|table| table.sessions.len()).sum();
        parts.push(format!(
            "{} with {}",
            plural(gateway.classify.len(), "classifier table"),
            plural(sessions, "session")
        ));
    }
    format!("valid: {}", parts.join(", "))
}
