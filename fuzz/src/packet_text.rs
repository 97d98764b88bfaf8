//! Packets as text: whatever the text, an answer; what is read prints back, and its frame is a valid one.

use weir_packet::text::{Macs, PacketText, summary};
use weir_packet::wire::MacAddress;

/// The target.
pub(crate) fn fuzz(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<PacketText>() {
        Ok(packet) => {
            let printed = packet.to_string();
            assert_eq!(printed.parse::<PacketText>().as_ref(), Ok(&packet));
            assert_eq!(packet.to_string(), printed);
            let macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 1]), to: MacAddress([2, 0, 0, 0, 0, 2]) };
            let line = summary(&packet.frame(macs)).to_string();
            assert!(printed.starts_with("0x") || !line.contains("malformed"), "{line}");
        }
        Err(error) => {
            assert!(text.get(error.span.clone()).is_some());
            assert!(!error.to_string().is_empty());
        }
    }
}
