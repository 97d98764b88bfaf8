//! `weir show`: reports about a running gateway.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum as _};

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::{self, escaped, target};
use crate::control::client::Client;
use crate::render::acl::Acls;
use crate::render::acl::rules::Rules;
use crate::render::alarms::Alarms;
use crate::render::allowlists::Allowlists;
use crate::render::bindings::Bindings;
use crate::render::bridges::{Bridges, Macs};
use crate::render::buffers::Buffers;
use crate::render::captures::Captures;
use crate::render::changes::Changes;
use crate::render::classify::Classify;
use crate::render::crypto::Crypto;
use crate::render::errors::Errors;
use crate::render::ethertypes::Ethertypes;
use crate::render::flows::Flows;
use crate::render::interfaces::Interfaces;
use crate::render::nat::{NatRules, Pools};
use crate::render::nat_users::Users;
use crate::render::nat_vrfs::NatVrfs;
use crate::render::neighbors::Neighbors;
use crate::render::route_to::RoutesTo;
use crate::render::routes::Routes;
use crate::render::runtime::Runtime;
use crate::render::samplers::Samplers;
use crate::render::sas::Sas;
use crate::render::sav::Sav;
use crate::render::sav::entries::Entries;
use crate::render::spd::Spds;
use crate::render::steer::Steers;
use crate::render::tables::Tables;
use crate::render::trace::Traces;
use crate::render::translations::Translations;
use crate::render::tunnels::Tunnels;
use crate::render::version::Version;
use crate::render::{self, Report};

/// Shows the state of a running gateway
#[derive(Debug, Args)]
pub struct Show {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connection: Connection,
    /// Write JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Each worker's rates, and the calls, packets and clocks of its nodes
    Runtime {
        /// Nodes that never ran, too
        #[arg(long)]
        all: bool,
    },
    /// Why packets were dropped, and where all of them went
    Errors {
        /// Reasons that did not occur, too
        #[arg(long)]
        all: bool,
    },
    /// Interfaces: kind, addresses and counters
    Interfaces,
    /// The forwarding tables
    Routes {
        /// The route that this address takes, and the other routes for its prefix
        address: Option<IpAddr>,
        /// Only those of this VRF
        #[arg(long, value_name = "NAME")]
        vrf: Option<String>,
        /// Only the first so many
        #[arg(long, value_name = "N", conflicts_with = "address")]
        limit: Option<usize>,
    },
    /// Addresses on links and their hardware addresses
    Neighbors,
    /// Source address validation: policies and counters of interfaces, or the entries of a policy
    Sav {
        /// The entries of this policy
        policy: Option<String>,
        /// Only entries that cover this prefix or address, or lie in it
        #[arg(long, value_name = "PREFIX", requires = "policy")]
        prefix: Option<String>,
        /// Only the first so many
        #[arg(long, value_name = "N", requires = "policy")]
        limit: Option<usize>,
    },
    /// Access lists: hits and the interfaces that use them, or the rules of one
    Acl {
        /// The rules of this list
        list: Option<String>,
        /// Only the first so many rules
        #[arg(long, value_name = "N", requires = "list")]
        limit: Option<usize>,
        /// How many packets and bits match in a second, counted over so many seconds
        #[arg(long, value_name = "SECONDS", requires = "list", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
        rates: Option<Duration>,
    },
    /// Live edits, which a reload applies to the new file
    Changes {
        /// Only the first so many; 1000 unless given
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Lists of sources that interfaces let pass, and how many did
    Allowlists,
    /// Which hardware addresses may use which addresses of IP, and how many packets did
    Bindings,
    /// Classifier tables and what they matched, or the sessions of one
    Classify {
        /// The sessions of this table
        table: Option<String>,
        /// Only the first so many sessions; 1000 unless given
        #[arg(long, value_name = "N", requires = "table")]
        limit: Option<usize>,
    },
    /// Which ethertypes interfaces let pass, and how many frames they refused
    Ethertypes,
    /// Sessions of access lists, their states and time-outs
    #[command(alias = "sessions")]
    Flows {
        /// A rule of an access list without its action, such as `tcp from 10.0.0.0/8 to any port 443`
        #[arg(value_name = "FILTER")]
        filter: Vec<String>,
        /// The order of sessions
        #[arg(long, value_enum, default_value = "age")]
        sort: Sort,
        /// Only the first so many; 1000 unless given, and all for conntrack
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// How to write them
        #[arg(long, value_enum, default_value = "table", conflicts_with = "json")]
        format: Format,
    },
    /// Pairs of SAs: algorithms, sequence numbers and counters
    Sa {
        /// Only this pair
        name: Option<String>,
    },
    /// Tunnels: their ends, identifiers, path MTUs and counters
    Tunnels {
        /// Only this tunnel
        name: Option<String>,
    },
    /// Bridges: ports, stations and counters; or the stations of one
    Bridge {
        /// Only this bridge
        name: Option<String>,
        /// The stations of the bridge
        #[arg(value_enum, requires = "name")]
        part: Option<BridgePart>,
        /// For stations: only the first so many
        #[arg(long, value_name = "N", requires = "part")]
        limit: Option<usize>,
    },
    /// The engines of IPsec, and how many SAs use each
    Crypto,
    /// Translation of addresses: rules and what they matched, translations, outside addresses in use, or inside addresses
    Nat {
        /// The part to show
        #[arg(value_enum, default_value = "rules")]
        what: Nat,
        /// For translations: a rule of an access list without its action, which matches their first packets
        #[arg(value_name = "FILTER")]
        filter: Vec<String>,
        /// For translations and users: only the first so many; 1000 translations or 20 users unless given, and all for conntrack
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// For translations: how they are written
        #[arg(long, value_enum, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
        format: Format,
    },
    /// Not a report of its own: `weir show nat translations` has them
    #[command(hide = true)]
    Translations {
        #[arg(value_name = "FILTER", trailing_var_arg = true, allow_hyphen_values = true)]
        filter: Vec<String>,
    },
    /// Security policy databases: rules in the order in which they are matched, and what they matched
    Spd {
        /// Only this SPD
        spd: Option<String>,
    },
    /// Steer rules in the order in which they are matched, and what they matched
    Steer {
        /// Only this list
        list: Option<String>,
    },
    /// Samplers: samples taken, written and lost
    Samplers,
    /// Alarms for invalid packets, by interface, and their history
    Alarms,
    /// Captures that run, and the last that ended
    Captures,
    /// Traced packets and the nodes they passed
    Trace,
    /// Packet buffers and how many are free
    Buffers,
    /// Everything that is bounded, and how full it is
    Tables,
    /// Version, process and configuration of the gateway
    Version,
}

/// A part of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BridgePart {
    /// Stations, the ports that lead to them and their age
    Macs,
}

/// A part of translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Nat {
    /// The rules, and what they have translated
    Rules,
    /// The translations that there are
    Translations,
    /// Outside addresses, and how many translations have them
    Pools,
    /// Inside addresses, those with the most translations first
    Users,
    /// VRFs, with their translations and limits
    Vrfs,
}

/// An order of sessions.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Sort {
    /// By age, the oldest first
    Age,
    /// By the time since the last packet, the longest first
    Idle,
    /// By packets, the most first
    Packets,
    /// By octets, the most first
    Bytes,
}

/// How sessions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table
    Table,
    /// As `conntrack -L` does
    Conntrack,
}

impl Show {
    pub(super) fn run(&self) -> Result<(), Error> {
        let asker = Asker { client: self.connection.client(), json: self.json };
        match &self.what {
            What::Runtime { all } => asker.show::<Runtime>(&format!("/v1/show/runtime?all={all}")),
            What::Errors { all } => asker.show::<Errors>(&format!("/v1/show/errors?all={all}")),
            What::Interfaces => asker.show::<Interfaces>("/v1/show/interfaces"),
            What::Routes { address: Some(address), vrf, .. } => {
                let path = format!("/v1/show/routes/{}", escaped(&address.to_string()));
                asker.show::<RoutesTo>(&target(&path, [("vrf", vrf.clone())]))
            }
            What::Routes { address: None, vrf, limit } => {
                let limit = limit.map(|limit| limit.to_string());
                asker.show::<Routes>(&target("/v1/show/routes", [("vrf", vrf.clone()), ("limit", limit)]))
            }
            What::Neighbors => asker.show::<Neighbors>("/v1/show/neighbors"),
            What::Sav { policy: None, .. } => asker.show::<Sav>("/v1/show/sav"),
            What::Sav { policy: Some(policy), prefix, limit } => {
                let limit = limit.map(|limit| limit.to_string());
                let path = format!("/v1/show/sav/{}", escaped(policy));
                asker.show::<Entries>(&target(&path, [("prefix", prefix.clone()), ("limit", limit)]))
            }
            What::Acl { list: None, .. } => asker.show::<Acls>("/v1/acl"),
            What::Acl { list: Some(list), limit, rates } => {
                let limit = limit.map(|limit| limit.to_string());
                let target = target(&format!("/v1/acl/{}", escaped(list)), [("limit", limit)]);
                match rates {
                    None => asker.show::<Rules>(&target),
                    Some(time) => asker.rates(&target, *time),
                }
            }
            What::Changes { limit } => {
                let limit = limit.map(|limit| limit.to_string());
                asker.show::<Changes>(&target("/v1/show/changes", [("limit", limit)]))
            }
            What::Allowlists => asker.show::<Allowlists>("/v1/show/allowlists"),
            What::Bindings => asker.show::<Bindings>("/v1/show/bindings"),
            What::Classify { table: None, .. } => asker.show::<Classify>("/v1/show/classify"),
            What::Classify { table: Some(table), limit } => {
                let path = format!("/v1/show/classify/{}", escaped(table));
                asker.show::<Classify>(&target(&path, [("limit", limit.map(|limit| limit.to_string()))]))
            }
            What::Ethertypes => asker.show::<Ethertypes>("/v1/show/ethertypes"),
            What::Flows { filter, sort, limit, format } => {
                let filter = query::filter(filter)?;
                let sort = match sort {
                    Sort::Age => "age",
                    Sort::Idle => "idle",
                    Sort::Packets => "packets",
                    Sort::Bytes => "bytes",
                };
                let limit = limit.unwrap_or(if *format == Format::Conntrack { usize::MAX } else { 1000 });
                let query = [("filter", filter), ("sort", Some(sort.to_owned())), ("limit", Some(limit.to_string()))];
                let target = target("/v1/show/flows", query);
                match format {
                    Format::Table => asker.show::<Flows>(&target),
                    Format::Conntrack => print(&asker.client.show::<Flows>(&target)?.0.conntrack()),
                }
            }
            What::Tunnels { name: None } => asker.show::<Tunnels>("/v1/show/tunnels"),
            What::Tunnels { name: Some(name) } => asker.show::<Tunnels>(&format!("/v1/show/tunnels/{}", escaped(name))),
            What::Bridge { name: None, .. } => asker.show::<Bridges>("/v1/show/bridge"),
            What::Bridge { name: Some(name), part: None, .. } => {
                asker.show::<Bridges>(&format!("/v1/show/bridge/{}", escaped(name)))
            }
            What::Bridge { name: Some(name), part: Some(BridgePart::Macs), limit } => {
                let limit = limit.map(|limit| limit.to_string());
                let path = format!("/v1/show/bridge/{}/macs", escaped(name));
                asker.show::<Macs>(&target(&path, [("limit", limit)]))
            }
            What::Crypto => asker.show::<Crypto>("/v1/show/crypto"),
            What::Sa { name } => asker.show::<Sas>(&target("/v1/show/sa", [("name", name.clone())])),
            What::Translations { filter } => {
                let words: String = filter.iter().map(|word| format!(" {word}")).collect();
                Err(Error::Usage(format!("translations are a part of NAT: `weir show nat translations{words}`")))
            }
            What::Nat { what: what @ (Nat::Rules | Nat::Pools | Nat::Vrfs | Nat::Users), filter, .. }
                if !filter.is_empty() =>
            {
                let name = what.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
                Err(Error::Usage(format!("`{name}` has no filter")))
            }
            What::Nat { what, format: Format::Conntrack, .. } if *what != Nat::Translations => {
                Err(Error::Usage("`--format conntrack` is for translations".to_owned()))
            }
            What::Nat { what: Nat::Rules, .. } => asker.show::<NatRules>("/v1/show/nat/rules"),
            What::Nat { what: Nat::Pools, .. } => asker.show::<Pools>("/v1/show/nat/pools"),
            What::Nat { what: Nat::Vrfs, .. } => asker.show::<NatVrfs>("/v1/show/nat/vrfs"),
            What::Nat { what: Nat::Users, limit, .. } => {
                let limit = limit.map(|limit| limit.to_string());
                asker.show::<Users>(&target("/v1/show/nat/users", [("limit", limit)]))
            }
            What::Nat { what: Nat::Translations, filter, limit, format } => {
                let filter = query::filter(filter)?;
                let limit = limit.or((*format == Format::Conntrack).then_some(usize::MAX));
                let limit = limit.map(|limit| limit.to_string());
                let target = target("/v1/show/nat/translations", [("filter", filter), ("limit", limit)]);
                match format {
                    Format::Table => asker.show::<Translations>(&target),
                    Format::Conntrack => print(&asker.client.show::<Translations>(&target)?.0.conntrack()),
                }
            }
            What::Steer { list: None } => asker.show::<Steers>("/v1/show/steer"),
            What::Steer { list: Some(name) } => asker.show::<Steers>(&format!("/v1/show/steer/{}", escaped(name))),
            What::Spd { spd: None } => asker.show::<Spds>("/v1/show/spd"),
            What::Spd { spd: Some(name) } => asker.show::<Spds>(&format!("/v1/show/spd/{}", escaped(name))),
            What::Samplers => asker.show::<Samplers>("/v1/show/samplers"),
            What::Alarms => asker.show::<Alarms>("/v1/show/alarms"),
            What::Captures => asker.show::<Captures>("/v1/show/captures"),
            What::Trace => asker.show::<Traces>("/v1/show/trace"),
            What::Buffers => asker.show::<Buffers>("/v1/show/buffers"),
            What::Tables => asker.show::<Tables>("/v1/show/tables"),
            What::Version => asker.show::<Version>("/v1/show/version"),
        }
    }
}

/// A time to count over.
fn seconds(text: &str) -> Result<Duration, String> {
    const LONGEST: f64 = 3600.0;
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= LONGEST => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("a time to count over is a number of seconds up to {LONGEST}")),
    }
}

struct Asker {
    client: Client,
    json: bool,
}

impl Asker {
    fn show<R: Report>(&self, target: &str) -> Result<(), Error> {
        let (report, json) = self.client.show::<R>(target)?;
        if self.json { print(&json) } else { print(&report.text()) }
    }

    /// The rules of a list, with the rates of what they matched between two readings.
    fn rates(&self, target: &str, time: Duration) -> Result<(), Error> {
        let (before, _) = self.client.show::<Rules>(target)?;
        let start = Instant::now();
        std::thread::sleep(time);
        let (now, _) = self.client.show::<Rules>(target)?;
        let rules = now.since(&before, start.elapsed().as_secs_f64());
        if self.json { print(&(render::json(&rules) + "\n")) } else { print(&rules.text()) }
    }
}
