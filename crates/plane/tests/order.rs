//! The order in which packets leave: that in which they arrived, whichever way they took through the graph.

use crate::kit::*;
use weir_plane::model::{Mechanism, Urpf, UrpfMode};

#[test]
fn packets_leave_in_the_order_in_which_they_arrived() {
    let strict = Mechanism::Urpf(Urpf { mode: UrpfMode::Strict, default_route: false, vrf: None });
    let loose = Mechanism::Urpf(Urpf { mode: UrpfMode::Loose, default_route: false, vrf: None });
    // Two VLANs with a policy each and one without, on one port: the packets of a vector take three ways.
    let mut rig = Build::new()
        .port("trunk", &["192.0.2.1/24"])
        .vlan("one", "trunk", &[1], &["10.1.0.1/16"])
        .vlan("two", "trunk", &[2], &["10.2.0.1/16"])
        .vlan("three", "trunk", &[3], &["10.3.0.1/16"])
        .port("wan", &["203.0.113.1/24"])
        .neighbor("wan", "203.0.113.2", mac(9))
        .policy("strict", strict)
        .policy("loose", loose)
        .validate(&["one"], "strict")
        .validate(&["two"], "loose")
        .rig();
    let frames: Vec<Vec<u8>> = (0..255u16)
        .map(|number| {
            let vlan = number % 3 + 1;
            let text = format!("udp from 10.{vlan}.0.9 port {} to 203.0.113.2 port 9", number + 1);
            let name = ["one", "two", "three"][usize::from(number % 3)];
            let plain = rig.frame(name, &text);
            let mut frame = plain[..12].to_vec();
            frame.extend([0x81, 0x00, 0x00, vlan as u8]);
            frame.extend(&plain[12..]);
            frame
        })
        .collect();
    let (_, out) = rig.put_all("trunk", &frames);
    let ports: Vec<u16> = out.iter().map(|(_, frame)| u16::from_be_bytes([frame[34], frame[35]])).collect();
    assert!(ports.iter().copied().eq(1..=255), "{ports:?}");
}
