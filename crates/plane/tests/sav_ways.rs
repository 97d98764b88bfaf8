//! Source address validation on every path of a packet: no invalid packet passes, and no error goes to a forged source.

use crate::kit::*;
use weir_plane::harness::Verdict;
use weir_plane::model::{SpecialAction, SpecialSources};
use weir_plane::reason::Reason;

/// `lan` validates by a table that permits 10.0.0.0/24 and 2001:db8:a::/64 there.
fn gateway(special: impl FnOnce(&mut SpecialSources)) -> Build {
    let build = two_ports();
    let rules = ["permit from 10.0.0.0/24 on lan", "permit from 2001:db8:a::/64 on lan"];
    let mut build = build.table("t", &rules).validate(&["lan"], "t");
    special(&mut build.0.sav[0].special);
    build
}

#[test]
fn broadcast_addresses_are_no_sources_of_what_stays_on_the_link() {
    let hello = |source: &str| format!("udp from {source} port 1 to 224.0.0.5 port 2 mac-to 01:00:5e:00:00:05");
    for (action, verdict) in [
        (SpecialAction::Deny, Verdict::Drop(Reason::SavSpecial)),
        (SpecialAction::Permit, Verdict::Local),
        // The table has them.
        (SpecialAction::Check, Verdict::Local),
    ] {
        let mut build = gateway(|special| special.broadcast = action);
        let spec = Build::new().port("lan", &[]).punt().0.interfaces.remove(0).punt;
        build.0.interfaces[0].punt = spec;
        let mut rig = build.rig();
        for source in ["10.0.0.255", "10.0.0.0"] {
            assert_eq!(rig.send("lan", &hello(source)).outcome.verdict, verdict, "{action:?} {source}");
        }
        assert_eq!(rig.send("lan", &hello("10.0.0.7")).outcome.verdict, Verdict::Local);
        assert_eq!(rig.send("lan", &hello("10.0.1.255")).outcome.verdict, Verdict::Drop(Reason::SavTable));
        let row = rig.harness.sav().into_iter().find(|row| (&*row.interface, row.family) == ("lan", "ipv4")).unwrap();
        let special = row.invalid.iter().find(|(by, _)| *by == "special").unwrap().1;
        assert_eq!((row.checked, special.packets), (4, if action == SpecialAction::Deny { 2 } else { 0 }));
    }
}

#[test]
fn errors_about_what_is_malformed_go_to_valid_sources_only() {
    let mut rig = gateway(|_| ()).rig();
    let options = |rig: &Rig, source: &str| {
        let plain = rig.frame("lan", &format!("udp from {source} port 1 to 203.0.113.1 port 2"));
        with_options(&plain, &[7, 0])
    };
    let frame = options(&rig, "10.0.0.2");
    rig.told_frame("lan", &frame, Reason::BadOptions);
    // Forged, and an answer would hit its victim behind `wan`.
    let frame = options(&rig, "198.51.100.9");
    rig.drops_frame("lan", &frame, Reason::SavTable);
    let frame = options(&rig, "10.0.0.255");
    rig.drops_frame("lan", &frame, Reason::SavSpecial);

    let headers = |rig: &Rig, source: &str| {
        let plain = rig.frame("lan", &format!("udp from {source} port 1 to 2001:db8:dddd::1 port 2"));
        // Nine headers of destination options.
        let mut chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
        chain[64] = 17;
        with_extensions(&plain, 60, &chain)
    };
    let frame = headers(&rig, "2001:db8:a::2");
    rig.told_frame("lan", &frame, Reason::TooManyExtensionHeaders);
    let frame = headers(&rig, "2001:db8:b::2");
    rig.drops_frame("lan", &frame, Reason::SavTable);
    // A class that is permitted has the right to know, on its link.
    let frame = headers(&rig, "fe80::9");
    let answer = rig.put("lan", &frame);
    assert_eq!(answer.outcome.verdict, Verdict::Drop(Reason::TooManyExtensionHeaders));
    let mut rig = gateway(|special| special.link_local = SpecialAction::Deny).rig();
    let frame = headers(&rig, "fe80::9");
    rig.drops_frame("lan", &frame, Reason::SavSpecial);
    // All of it has been counted, once each.
    let rows = rig.harness.sav();
    assert_eq!(rows.iter().map(|row| row.checked).sum::<u64>(), 1);
    // Without a policy all sources get errors.
    let mut rig = two_ports().rig();
    let frame = options(&rig, "192.0.2.2");
    rig.told_frame("lan", &frame, Reason::BadOptions);
    let frame = headers(&rig, "2001:db8:b::2");
    rig.told_frame("lan", &frame, Reason::TooManyExtensionHeaders);
}
