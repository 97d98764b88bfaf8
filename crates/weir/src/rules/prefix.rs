//! Prefixes as people write them.

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

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

/// A prefix, or a host without its length, as people write it.
pub(crate) struct Short<'n>(pub(crate) &'n IpNet);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => write!(f, "{}", self.0.addr()),
            false => write!(f, "{}", self.0),
        }
    }
}

/// Returns the IPv4 form of a prefix of IPv4-mapped addresses (RFC 4291, 2.5.5.2). No packet has such addresses (RFC 4038,
/// 4.2), so a rule that matches them alone never matches. `None`: the prefix has other addresses, too.
pub(crate) fn unmapped(net: IpNet) -> Option<Ipv4Net> {
    let IpNet::V6(net) = net else { return None };
    let length = net.prefix_len().checked_sub(96)?;
    Ipv4Net::new(net.addr().to_ipv4_mapped()?, length).ok()
}

/// Returns help about the length of a text that otherwise looks like a prefix.
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
    fn mapped_prefixes_have_an_ipv4_form() {
        let unmapped = |text: &str| unmapped(text.parse().unwrap()).map(|net| net.to_string());
        assert_eq!(unmapped("::ffff:0:0/96").as_deref(), Some("0.0.0.0/0"));
        assert_eq!(unmapped("::ffff:10.0.0.0/104").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(unmapped("::ffff:192.0.2.1/128").as_deref(), Some("192.0.2.1/32"));
        for other in ["::/0", "::/95", "::fffe:0:0/96", "::1:0:0/96", "2001:db8::/32", "10.0.0.0/8"] {
            assert_eq!(unmapped(other), None, "{other}");
        }
    }
}
