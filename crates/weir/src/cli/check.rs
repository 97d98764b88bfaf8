//! `weir check`: everything that is wrong with a configuration, in one pass, without privileges.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use weir_plane::model::{Gateway, InterfaceKind};

use super::error::Error;
use super::output::{colour, print};
use super::query::target;
use crate::config::{self, plural};
use crate::control::client::Client;
use crate::render::Report as _;
use crate::render::preview::Preview;

/// Reports every error in a configuration
#[derive(Debug, Args)]
pub struct Check {
    /// The configuration, a TOML file
    file: PathBuf,
    /// Also print what a reload of this file would do to the gateway on this control socket; nothing changes
    #[arg(long, value_name = "SOCKET")]
    against: Option<PathBuf>,
    /// Write the findings as JSON to standard output
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self) -> Result<(), Error> {
        let loaded = config::check(&self.file);
        if let (Some(socket), Some(_)) = (&self.against, &loaded.gateway) {
            let _ = write!(std::io::stderr(), "{}", loaded.text(colour(std::io::stderr().is_terminal())));
            return self.preview(socket);
        }
        let written = if self.json {
            writeln!(std::io::stdout(), "{}", loaded.json())
        } else {
            let colour = colour(std::io::stderr().is_terminal());
            write!(std::io::stderr(), "{}", loaded.text(colour)).and_then(|()| match &loaded.gateway {
                Some(gateway) => writeln!(std::io::stdout(), "{}", summary(gateway)),
                None => Ok(()),
            })
        };
        match (written, loaded.gateway) {
            (_, None) => Err(Error::InvalidConfig),
            (Err(_), Some(_)) => Err(Error::Closed),
            (Ok(()), Some(_)) => Ok(()),
        }
    }

    /// Prints what a reload would do; fails if it would be refused.
    fn preview(&self, socket: &Path) -> Result<(), Error> {
        let file = std::path::absolute(&self.file);
        let file = file.map_err(|error| Error::Failed(format!("{}: {error}", self.file.display())))?;
        let target = target("/v1/preview", [("file", Some(file.display().to_string()))]);
        let answer = Client::new(socket).named_by("--against").show::<Preview>(&target);
        if let Some(refusal) = answer.as_ref().err().and_then(|error| error.invalid_configuration()) {
            // Live changes may not fit a file that is valid by itself.
            let _ = std::io::stderr().write_all(refusal.findings.as_bytes());
        }
        let (preview, json) = answer?;
        print(&if self.json { json } else { preview.text() })?;
        match preview.refused.first() {
            None => Ok(()),
            Some(why) => Err(Error::Failed(format!("a reload would be refused: {why}"))),
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
    if !gateway.steer.is_empty() {
        let rules = gateway.steer.iter().map(|list| list.rules.len()).sum();
        parts.push(format!("{} with {}", plural(gateway.steer.len(), "steer list"), plural(rules, "rule")));
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
