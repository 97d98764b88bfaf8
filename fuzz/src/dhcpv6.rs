//! Messages of DHCP for IPv6: addresses and prefixes of a message that is read are written so that they are read again as the same.

use weir_packet::wire::dhcpv6::{Lease, Message, is_reply};

fn leases(message: &Message<'_>) -> Vec<Lease> {
    let mut all = Vec::new();
    message.each_lease(|lease| all.push(lease));
    all
}

/// The target.
pub(crate) fn fuzz(payload: &[u8]) {
    let Some(message) = Message::parse(payload) else { return };
    // Each lease takes an option of 28 octets at least.
    let all = leases(&message);
    assert!(all.len() * 28 <= payload.len());
    let octets = Message::emit(message.kind, message.transaction, &all);
    let again = Message::parse(&octets).expect("a message that was written");
    // A prefix of all bits is an address.
    assert_eq!((again.kind, again.transaction, leases(&again)), (message.kind, message.transaction, all));
    if message.peer.is_none() {
        assert_eq!(is_reply(payload), is_reply(&octets));
    }
}
