//! The graph with packets of all kinds. One program: the kit, and what the tests share of the plane, are compiled once.
//!
//! Oracles, contracts and the count of allocations are programs of their own: they run for long, or count for a whole process.

mod kit;

mod acl;
mod acl_fragments;
mod acl_reject;
mod acl_versions;
mod allow;
mod beside;
mod bridge;
mod bridge_lists;
mod bridge_routes;
mod bridge_workers;
mod captures;
mod checks;
mod classify;
mod discovery;
mod engine;
mod esp;
mod esp_cover;
mod esp_life;
mod esp_path;
mod esp_rekey;
mod esp_share;
mod ethertypes;
mod flow;
mod flow_esp;
mod forwarding;
mod fragments;
mod hold;
mod icmp;
mod ip_input;
mod link;
mod local;
mod mac_ip;
mod nat;
mod offload;
mod order;
mod patch;
mod punt;
mod reasons;
mod reload;
mod route_to;
mod sampling;
mod sav;
mod sav_actions;
mod sav_answers;
mod sav_engine;
mod sav_exempt;
mod sav_link;
mod sav_modes;
mod sav_versions;
mod sav_ways;
mod savi;
mod session_watch;
mod sessions;
mod snoop;
mod spd_esp;
mod steer;
mod tunnels;

/// A file that neither this program nor Cargo.toml names would not be compiled.
#[test]
fn every_file_is_compiled() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = include_str!("main.rs").to_owned() + include_str!("../Cargo.toml");
    for entry in folder.join("tests").read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        assert!(named.contains(&format!("mod {module};")) || named.contains(&format!("tests/{name}")), "{name}");
    }
}
