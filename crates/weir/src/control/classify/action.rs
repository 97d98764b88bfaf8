//! The action of a live session: its names, looked up in a gateway.

use std::net::IpAddr;

use weir_plane::model::{
    ClassifyAction, Gateway, InterfaceIndex, InterfaceKind, NextHop, SamplerIndex, Sampling, VrfIndex,
};

use crate::rules::classify::{Session, Via};

/// Returns the action of a session.
///
/// # Errors
/// Says which name stands for nothing.
pub(super) fn action(gateway: &Gateway, session: &Session) -> Result<ClassifyAction, String> {
    let vrf = match &session.vrf {
        None => None,
        Some(name) => {
            let at = gateway.vrfs.iter().position(|vrf| vrf.name == *name);
            Some(VrfIndex(at.ok_or_else(|| format!("there is no VRF `{name}`"))? as u16))
        }
    };
    let via = session.via.iter().map(|via| hop(gateway, via, vrf)).collect::<Result<Vec<_>, _>>()?;
    let sample = match &session.sample {
        None => None,
        Some((one_in, name)) => {
            let at = gateway.samplers.iter().position(|sampler| sampler.name == *name);
            let to = SamplerIndex(at.ok_or_else(|| format!("there is no sampler `{name}`"))? as u16);
            Some(Sampling { one_in: *one_in, to })
        }
    };
    let limit = session.limit.map(crate::rules::acl::Limit::model);
    Ok(ClassifyAction { permit: session.permit, vrf, via: via.into(), mark: session.mark, limit, sample })
}

/// Finds the interface of a next hop: the one it names, or the one with a connected prefix that holds the address.
fn hop(gateway: &Gateway, via: &Via, vrf: Option<VrfIndex>) -> Result<NextHop, String> {
    let holds = |at: usize, address: IpAddr| {
        gateway.interfaces[at].addresses.iter().any(|own| own.net.contains(&address) && own.net.addr() != address)
    };
    let at = match (&via.interface, via.address) {
        (Some(name), _) => {
            let at = gateway.interfaces.iter().position(|own| own.name == *name);
            at.ok_or_else(|| format!("there is no interface `{name}`"))?
        }
        (None, Some(address)) => {
            let vrf = vrf.unwrap_or(VrfIndex(0));
            let found =
                (0..gateway.interfaces.len()).find(|&at| gateway.interfaces[at].vrf == vrf && holds(at, address));
            found.ok_or_else(|| format!("{address} is on no link of the VRF"))?
        }
        (None, None) => return Err("a next hop has an address or an interface".to_owned()),
    };
    let own = &gateway.interfaces[at];
    match via.address {
        None if !matches!(&own.kind, InterfaceKind::Tunnel(tunnel) if !tunnel.carrier.is_ethernet()) => {
            return Err(format!("the next hop on `{}` has no address, and several stations may be there", own.name));
        }
        Some(address) if own.addresses.iter().any(|own| own.net.addr() == address) => {
            return Err(format!("the next hop {address} is the gateway's own address"));
        }
        _ => {}
    }
    Ok(NextHop { interface: InterfaceIndex(at as u32), address: via.address, weight: via.weight })
}
