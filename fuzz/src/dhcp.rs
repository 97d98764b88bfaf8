//! Messages of DHCP: a message that is read is written so that it is read again as the same.

use weir_packet::wire::dhcp::{Message, is_reply};

/// The target.
pub(crate) fn fuzz(payload: &[u8]) {
    if let Some(message) = Message::parse(payload) {
        assert_eq!(message.reply, is_reply(payload));
        assert_eq!(Message::parse(&message.emit()), Some(message));
    }
}
