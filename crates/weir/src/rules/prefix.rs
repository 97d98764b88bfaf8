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
