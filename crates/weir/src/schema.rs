//! The JSON schema of configurations, by which editors complete and check them.
//!
//! It is kept by hand beside the readers in `config/declare`. A test compares the keys of all its tables with the keys
//! of the readers.

/// The schema, in JSON Schema 2020-12.
pub const TEXT: &str = include_str!("schema.json");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use crate::config;

    /// A step to a value: a key, or an item of an array.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    enum Step {
        Key(String),
        Item,
    }

    /// Tables of the schema: the ways to them, and their keys.
    fn tables(root: &Value, at: &Value, way: &[Step], found: &mut BTreeSet<(Vec<Step>, Vec<String>)>) {
        let next = |step: Step| way.iter().cloned().chain([step]).collect::<Vec<_>>();
        if let Some(name) = at["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            tables(root, &root["$defs"][name], way, found);
        }
        for choice in at["anyOf"].as_array().into_iter().flatten() {
            tables(root, choice, way, found);
        }
        if at["items"].is_object() {
            tables(root, &at["items"], &next(Step::Item), found);
        }
        if at["additionalProperties"].is_object() {
            tables(root, &at["additionalProperties"], &next(Step::Key("x".into())), found);
        }
        let Some(keys) = at["properties"].as_object() else { return };
        if at["additionalProperties"] == false {
            found.insert((way.to_vec(), keys.keys().cloned().collect()));
        }
        for (key, value) in keys {
            tables(root, value, &next(Step::Key(key.clone())), found);
        }
    }

    /// Writes a configuration with a key that no table has, at the end of a way.
    fn with_unknown_key(way: &[Step]) -> String {
        let mut value = "{ zzqx = 1 }".to_owned();
        for (depth, step) in way.iter().enumerate().rev() {
            value = match step {
                Step::Item => format!("[{value}]"),
                // A port is read with its interface, and other keys of an interface beside a port.
                Step::Key(key) if depth == 2 && way[0] == Step::Key("interface".into()) => match key.as_str() {
                    "port" => format!("{{ name = \"a\", port = {value} }}"),
                    "vlan" => format!("{{ name = \"a\", parent = \"b\", vlan = {value} }}"),
                    _ => format!("{{ name = \"a\", port = \"null\", {key} = {value} }}"),
                },
                Step::Key(key) if depth == 0 => format!("{key} = {value}\n"),
                Step::Key(key) => format!("{{ {key} = {value} }}"),
            };
        }
        let text = if way.is_empty() { "zzqx = 1\n".to_owned() } else { value };
        format!("version = 1\n{text}")
    }

    #[test]
    fn the_schema_has_the_keys_that_are_read() {
        let schema: Value = serde_json::from_str(super::TEXT).unwrap();
        let mut found = BTreeSet::new();
        tables(&schema, &schema, &[], &mut found);
        assert!(found.len() > 60, "{}", found.len());
        let mut wrong = Vec::new();
        for (way, keys) in found {
            // The kinds of ports are no keys to the reader.
            if way.last() == Some(&Step::Key("port".into())) && way.len() == 3 {
                continue;
            }
            let text = with_unknown_key(&way);
            let loaded = config::parse_str("test.toml", &text);
            let mut findings = loaded.diagnostics.iter().filter(|own| own.message.ends_with("has no key `zzqx`"));
            let read: BTreeSet<String> = findings.next().map_or_else(BTreeSet::new, |finding| {
                finding.help.iter().flat_map(|help| help.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
            });
            if read != keys.into_iter().collect() {
                wrong.push(format!("{text}the reader has: {read:?}\n"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
