//! The action of a live session: its names, looked up in a gateway.

use weir_plane::model::{
    ClassifyAction, ClassifyTable, Gateway, InterfaceKind, NextHop, SamplerIndex, Sampling, VrfIndex,
};

use super::super::next_hop::interface_of;
use crate::rules::classify::{Session, Via};

/// Returns the action of a session of a table.
///
/// # Errors
/// Says which name stands for nothing.
pub(super) fn action(gateway: &Gateway, of: &ClassifyTable, session: &Session) -> Result<ClassifyAction, String> {
    let [interface, of_vrf] = of.start.names(&session.value);
    if let Some(name) = interface.filter(|name| !gateway.interfaces.iter().any(|own| own.name == *name)) {
        return Err(format!("there is no interface `{name}`"));
    }
    if let Some(name) = of_vrf.filter(|name| !gateway.vrfs.iter().any(|vrf| vrf.name == *name)) {
        return Err(format!("there is no VRF `{name}`"));
    }
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

/// Finds the interface of a next hop.
fn hop(gateway: &Gateway, via: &Via, vrf: Option<VrfIndex>) -> Result<NextHop, String> {
    let interface = interface_of(gateway, via.interface.as_deref(), via.address, vrf.unwrap_or(VrfIndex(0)))?;
    let own = &gateway.interfaces[interface.0 as usize];
    if via.address.is_none() && !matches!(&own.kind, InterfaceKind::Tunnel(tunnel) if !tunnel.carrier.is_ethernet()) {
        return Err(format!("the next hop on `{}` has no address, and several stations may be there", own.name));
    }
    Ok(NextHop { interface, address: via.address, weight: via.weight })
}
