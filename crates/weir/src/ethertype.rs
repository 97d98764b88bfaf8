//! Ethertypes, as people write them.

/// By their names, from IANA's registry "IEEE 802 Numbers".
pub const NAMES: &[(&str, u16)] = &[
    ("ipv4", 0x0800),
    ("arp", 0x0806),
    ("vlan", 0x8100),
    ("ipv6", 0x86dd),
    ("slow-protocols", 0x8809),
    ("mpls", 0x8847),
    ("pppoe-discovery", 0x8863),
    ("pppoe-session", 0x8864),
    ("eapol", 0x888e),
    ("qinq", 0x88a8),
    ("lldp", 0x88cc),
    ("macsec", 0x88e5),
    ("ptp", 0x88f7),
];

/// The name of one, or its number as `0x88cc`: the configuration takes either.
pub fn written(ethertype: u16) -> String {
    let named = NAMES.iter().find(|&&(_, number)| number == ethertype);
    named.map_or_else(|| format!("{ethertype:#06x}"), |&(name, _)| name.to_owned())
}
