//! All fuzz targets in one program, as each program takes long to link. `WEIR_FUZZ_TARGET` chooses one by its name.

#![no_main]

mod acl;
mod check;
mod classify;
mod config;
mod crypto;
mod dhcp;
mod dhcpv6;
mod esp;
mod fpm;
mod fragment;
mod icmp;
mod neighbors;
mod offload;
mod packet_text;
mod parse;
mod pcap;
mod reassembly;
mod rules;
mod rules_csv;
mod rules_import;
mod rules_json;
mod spd;
mod steer;
mod tunnels;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// A target panics where its input shows a fault.
type Target = fn(&[u8]);

/// By name, which is that of the file.
const TARGETS: [(&str, Target); 23] = [
    ("acl", acl::fuzz),
    ("classify", classify::fuzz),
    ("config", config::fuzz),
    ("crypto", crypto::fuzz),
    ("dhcp", dhcp::fuzz),
    ("dhcpv6", dhcpv6::fuzz),
    ("esp", esp::fuzz),
    ("fpm", fpm::fuzz),
    ("fragment", fragment::fuzz),
    ("icmp", icmp::fuzz),
    ("neighbors", neighbors::fuzz),
    ("offload", offload::fuzz),
    ("packet_text", packet_text::fuzz),
    ("parse", parse::fuzz),
    ("pcap", pcap::fuzz),
    ("reassembly", reassembly::fuzz),
    ("rules", rules::fuzz),
    ("rules_csv", rules_csv::fuzz),
    ("rules_import", rules_import::fuzz),
    ("rules_json", rules_json::fuzz),
    ("spd", spd::fuzz),
    ("steer", steer::fuzz),
    ("tunnels", tunnels::fuzz),
];

static CHOSEN: OnceLock<Target> = OnceLock::new();

/// The target that the environment names.
fn chosen() -> Target {
    let name = std::env::var("WEIR_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(own, _)| *own == name);
    found.unwrap_or_else(|| panic!("WEIR_FUZZ_TARGET is `{name}`, which is no target")).1
}

fuzz_target!(|input: &[u8]| CHOSEN.get_or_init(chosen)(input));
