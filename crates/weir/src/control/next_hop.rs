//! The interface of a next hop that a live edit names, looked up in a gateway.

use std::net::IpAddr;

use weir_plane::model::{Gateway, InterfaceIndex, VrfIndex};

/// Finds the interface of a next hop: the one it names, or the one of this VRF with a connected prefix that holds the address.
///
/// # Errors
/// Says which name stands for nothing, or why the address is no next hop.
pub(super) fn interface_of(
    gateway: &Gateway,
    name: Option<&str>,
    address: Option<IpAddr>,
    vrf: VrfIndex,
) -> Result<InterfaceIndex, String> {
    let holds =
        |at: usize, address: IpAddr| gateway.interfaces[at].addresses.iter().any(|own| own.net.contains(&address));
    let at = match (name, address) {
        (Some(name), _) => {
            let at = gateway.interfaces.iter().position(|own| own.name == *name);
            let at = at.ok_or_else(|| format!("there is no interface `{name}`"))?;
            if let Some(address) = address.filter(|&address| !is_link_local(address) && !holds(at, address)) {
                return Err(format!("the next hop {address} is on no link of `{name}`"));
            }
            at
        }
        (None, Some(address)) => {
            let found =
                (0..gateway.interfaces.len()).find(|&at| gateway.interfaces[at].vrf == vrf && holds(at, address));
            found.ok_or_else(|| format!("{address} is on no link of the VRF"))?
        }
        (None, None) => return Err("a next hop has an address or an interface".to_owned()),
    };
    match address {
        Some(address) if gateway.interfaces[at].addresses.iter().any(|own| own.net.addr() == address) => {
            Err(format!("the next hop {address} is the gateway's own address"))
        }
        _ => Ok(InterfaceIndex(at as u32)),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(own) => own.is_link_local(),
        IpAddr::V6(own) => own.is_unicast_link_local(),
    }
}
