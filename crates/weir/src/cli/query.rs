//! The parameters of requests to the control socket.

use super::error::Error;
use crate::control::parse_filter;

/// A target: a path, and a query of those keys that have values.
pub(super) fn target<const N: usize>(path: &str, query: [(&str, Option<String>); N]) -> String {
    let pairs = query.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", escaped(&value?))));
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// A part of a path or a value of a query, whatever is in it.
pub(super) fn escaped(value: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(escape).collect()
}

/// The words of a filter as one text, if there are any. An error in it is found before the gateway is looked for.
///
/// # Errors
/// When the filter is no rule of an access list without its action.
pub(super) fn filter(words: &[String]) -> Result<Option<String>, Error> {
    let text = words.join(" ");
    if text.trim().is_empty() {
        return Ok(None);
    }
    parse_filter(&text).map_err(Error::Usage)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_can_be_asked_for() {
        let routes = |vrf: Option<&str>, limit: Option<usize>| {
            let limit = limit.map(|limit| limit.to_string());
            target("/v1/show/routes", [("vrf", vrf.map(str::to_owned)), ("limit", limit)])
        };
        assert_eq!(routes(None, None), "/v1/show/routes");
        assert_eq!(routes(Some("a&b é"), Some(3)), "/v1/show/routes?vrf=a%26b%20%C3%A9&limit=3");
    }
}
