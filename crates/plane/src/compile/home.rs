//! The interface of an outer address.

use std::net::IpAddr;

use crate::root::{Interface, NONE};

/// Returns the number of the interface that has an address, or of any in its routing domain; [`NONE`] without one. An address
/// counts before duplicate address detection has ended: no other interface gets it then.
pub(super) fn home(interfaces: &[Interface], vrf: u16, address: IpAddr) -> u32 {
    let is = |own: &Interface| own.present && own.vrf == vrf;
    let is_tentative = |own: &Interface| own.tentative.iter().any(|own| own.net.addr() == address);
    let has = interfaces.iter().position(|own| is(own) && (own.has(address) || is_tentative(own)));
    has.or_else(|| interfaces.iter().position(is)).map_or(NONE, |number| number as u32)
}
