//! Lists of steer rules.

use std::ops::RangeInclusive;

use weir_packet::identify::Identifier;
use weir_plane::model::{
    NextHop, Origin, SteerFrame, SteerHeader, SteerIndex, SteerInner, SteerList, SteerMac, SteerMacs, SteerNode,
    SteerOctets, SteerRule, SteerWay,
};

use super::{Build, ip};

impl Build {
    /// A list of interfaces. Rules as three parts with `|` between: actions (`mark N`, `drop`, `to IF`, `to IF ADDRESS`, `queue N`,
    /// `node NAME`, `advance N HEADER`), a rule of the kit without its action, and conditions (`vlan RANGE`, `esp RANGE`, `ah RANGE`,
    /// `vni RANGE`, `teid RANGE`, `session RANGE`, `l2|l3|l4 AT:HEX/HEX`, `mac-from|mac-to MAC`, `inner RULE` at the end). The rule
    /// is `frame [0xTYPE]` for frames that are not IP.
    pub fn steer(mut self, interfaces: &[&str], rules: &[&str]) -> Build {
        let rules: Vec<SteerRule> = rules.iter().map(|text| self.steer_rule(text)).collect();
        let index = SteerIndex(self.0.steer.len() as u16);
        self.0.steer.push(SteerList {
            name: format!("steer{}", index.0),
            rules: rules.into(),
            origin: Origin::default(),
        });
        for interface in interfaces {
            let at = self.interface(interface).0 as usize;
            self.0.interfaces[at].steer = Some(index);
        }
        self
    }

    pub fn steer_rule(&mut self, text: &str) -> SteerRule {
        let parts: Vec<&str> = text.split('|').map(str::trim).collect();
        let [actions, matches, conditions] = parts[..] else { panic!("{text}") };
        let frame = matches.strip_prefix("frame").map(|ethertype| SteerFrame {
            ethertype: ethertype.trim().strip_prefix("0x").map(|digits| u16::from_str_radix(digits, 16).unwrap()),
        });
        let matches = if frame.is_some() { "any" } else { matches };
        let matches = self.acl_rule(&format!("permit {matches}"));
        let (conditions, inner) = conditions.split_once("inner ").unzip();
        let conditions = conditions.unwrap_or(parts[2]);
        let inner = inner.map(|inner| {
            let matches = self.acl_rule(&format!("permit {inner}"));
            std::sync::Arc::new(SteerInner { matches, names_family: false })
        });
        let mut rule = SteerRule {
            count: false,
            mark: None,
            way: SteerWay::On,
            unchecked: true,
            vlan: None,
            id: None,
            octets: None,
            macs: SteerMacs::default(),
            inner,
            frame,
            matches,
            names_family: false,
            comment: None,
        };
        let mut words = actions.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{text}"));
            match word {
                "count" => rule.count = true,
                "mark" => rule.mark = Some(value().parse().unwrap()),
                "drop" => rule.way = SteerWay::Drop,
                "queue" => rule.way = SteerWay::Queue(value().parse().unwrap()),
                "node" => {
                    let name = value();
                    let node = SteerNode::ALL.into_iter().find(|node| node.name() == name);
                    rule.way = SteerWay::Node(node.unwrap());
                }
                "advance" => {
                    let octets = value().parse().unwrap();
                    let header = match value() {
                        "ethernet" => SteerHeader::Ethernet,
                        "ip4" => SteerHeader::Ip4,
                        _ => SteerHeader::Ip6,
                    };
                    rule.way = SteerWay::Advance(octets, header);
                }
                "to" => {
                    let interface = self.interface(value());
                    let address = words.next_if(|word| word.contains(['.', ':'])).map(ip);
                    let hop = NextHop { interface, address, weight: 1 };
                    rule.way = SteerWay::To { hop, interface: None };
                }
                _ => panic!("{word}: {text}"),
            }
        }
        let mut words = conditions.split_whitespace();
        while let (Some(word), Some(range)) = (words.next(), words.next()) {
            if let Some(start) = ["l2", "l3", "l4"].iter().position(|own| *own == word) {
                use weir_plane::model::ClassifyStart::{Link, Network, Transport};
                let (at, octets) = range.split_once(':').unwrap();
                let (value, mask) = octets.split_once('/').unwrap();
                let hex = |digits: &str| -> std::sync::Arc<[u8]> {
                    let octet = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
                    (0..digits.len()).step_by(2).map(octet).collect()
                };
                let (at, start) = (at.parse().unwrap(), [Link, Network, Transport][start]);
                rule.octets = Some(SteerOctets { start, at, value: hex(value), mask: hex(mask) });
                continue;
            }
            if let Some(end) = word.strip_prefix("mac-") {
                let (mac, length) = range.split_once('/').unwrap_or((range, "48"));
                let station = Some(SteerMac { mac: mac.parse().unwrap(), length: length.parse().unwrap() });
                *(if end == "from" { &mut rule.macs.from } else { &mut rule.macs.to }) = station;
                continue;
            }
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let ids: RangeInclusive<u32> = low.parse().unwrap()..=high.parse().unwrap();
            let kind = match word {
                "vlan" => {
                    rule.vlan = Some(*ids.start() as u16..=*ids.end() as u16);
                    continue;
                }
                "esp" => Identifier::Esp,
                "ah" => Identifier::Ah,
                "vni" => Identifier::Vni,
                "teid" => Identifier::Teid,
                "session" => Identifier::Session,
                _ => panic!("{word}: {text}"),
            };
            rule.id = Some((kind, ids));
        }
        rule
    }
}
