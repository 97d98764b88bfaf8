//! Prefixes as people write them.

use std::net::IpAddr;

use ipnet::IpNet;

/// A prefix with its host bits clear, and whether they were; or what would help.
pub(crate) fn parse(text: &str) -> Result<(IpNet, bool), String> {
    match text.parse::<IpNet>() {
        Ok(net) => {
            let clean = net.trunc();
            Ok((clean, clean == net))
        }
        Err(_) if text == "default" => Err("write `0.0.0.0/0` or `::/0`".to_owned()),
        Err(_) => Err(match text.parse::<IpAddr>() {
            Ok(address) => format!("write `{}` for this address alone", IpNet::from(address)),
            Err(_) => length_help(text).unwrap_or("it looks like `203.0.113.0/24` or `2001:db8::/32`").to_owned(),
        }),
    }
}

/// The IPv4 prefix that an IPv6 prefix of IPv4-mapped addresses (::ffff:0:0/96) stands for. No packet has such addresses
/// (RFC 4038, 4.2): what matches them alone never matches.
pub(crate) fn mapped(net: IpNet) -> Option<IpNet> {
    let IpNet::V6(net) = net else { return None };
    let address = net.network().to_ipv4_mapped()?;
    let length = net.prefix_len().checked_sub(96)?;
    IpNet::new(address.into(), length).ok()
}

/// What is wrong with the length of something that else looks like a prefix.
pub(crate) fn length_help(text: &str) -> Option<&'static str> {
    let (address, length) = text.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(_) => Some("the length of an IPv4 prefix is 0 to 32"),
        IpAddr::V6(_) => Some("the length of an IPv6 prefix is 0 to 128"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_prefixes_stand_for_those_of_ipv4() {
        let of = |net: &str| mapped(net.parse().unwrap()).map(|net| net.to_string());
        assert_eq!(of("::ffff:0:0/96").as_deref(), Some("0.0.0.0/0"));
        assert_eq!(of("::ffff:10.0.0.0/104").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(of("::ffff:192.0.2.1/128").as_deref(), Some("192.0.2.1/32"));
        for other in ["::/0", "::/80", "::ffff:0:0/95", "::fffe:0:0/96", "2001:db8::/32", "10.0.0.0/8"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
