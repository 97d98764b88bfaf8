//! Arrays of a document that get other items. Items that stay keep their place, their comments and their spelling.

use similar::{Algorithm, DiffOp, capture_diff_slices};
use toml_edit::{Array, RawString, Value};

use super::lines::Change;

/// Compares the items of a list with the items that it is to have.
pub(super) fn change(old: &[String], new: &[String]) -> Change {
    let mut change = Change::default();
    for op in capture_diff_slices(Algorithm::Patience, old, new) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        change.gone.extend(op.old_range());
        let before = op.old_range().end;
        change.new.extend(new[op.new_range()].iter().map(|text| (before, text.clone())));
    }
    change
}

/// An item with the text in front of it, and the comment behind it on its line.
struct Item {
    value: Value,
    lead: String,
    comment: String,
}

/// Writes a change into an array.
pub(super) fn write(array: &mut Array, change: &Change) {
    let (items, rest) = items(array);
    // New items stand as the old ones do: each on a line of its own, or behind the one before.
    let own_line = items.iter().map(|item| &item.lead).find(|lead| lead.contains('\n'));
    let own_line = own_line.map(|lead| format!("\n{}", lead.rsplit('\n').next().unwrap_or_default()));
    let item = |text: &String| Item {
        value: Value::from(text),
        lead: own_line.clone().unwrap_or_else(|| " ".to_owned()),
        comment: String::new(),
    };
    let had_comma = array.trailing_comma();
    let mut new = change.new.iter().peekable();
    let mut all = Vec::with_capacity(items.len() + change.new.len());
    for (index, old) in items.into_iter().enumerate() {
        while let Some((_, text)) = new.next_if(|(before, _)| *before == index) {
            all.push(item(text));
        }
        if !change.gone.contains(&index) {
            all.push(old);
        }
    }
    all.extend(new.map(|(_, text)| item(text)));
    array.clear();
    let mut comment = String::new();
    for Item { value, lead, comment: own } in all {
        let lead = if own_line.is_some() {
            lead.as_str()
        } else if array.is_empty() {
            ""
        } else {
            " "
        };
        array.push_formatted(value.decorated(format!("{comment}{lead}"), ""));
        comment = own;
    }
    array.set_trailing(format!("{comment}{}", if own_line.is_some() { rest.as_str() } else { "" }));
    // A comment behind an item needs its comma.
    array.set_trailing_comma((had_comma || !comment.is_empty()) && !array.is_empty());
}

/// Returns the items of an array, and the text behind the last one.
fn items(array: &Array) -> (Vec<Item>, String) {
    let mut items: Vec<Item> = Vec::new();
    let split = |text: &str| match text.find('\n') {
        Some(end) if text[..end].contains('#') => (text[..end].to_owned(), text[end..].to_owned()),
        _ => (String::new(), text.to_owned()),
    };
    for value in array.iter() {
        let prefix = value.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
        let (comment, lead) = if items.is_empty() { (String::new(), prefix.to_owned()) } else { split(prefix) };
        if let Some(before) = items.last_mut() {
            before.comment = comment;
        }
        items.push(Item { value: value.clone(), lead, comment: String::new() });
    }
    let (comment, rest) = split(array.trailing().as_str().unwrap_or_default());
    match items.last_mut() {
        Some(last) => last.comment = comment,
        None => return (items, array.trailing().as_str().unwrap_or_default().to_owned()),
    }
    (items, rest)
}

/// Returns an array with an item on each line.
pub(super) fn tall(items: &[String]) -> Array {
    let mut array = Array::new();
    for item in items {
        array.push_formatted(Value::from(item).decorated("\n    ", ""));
    }
    if !array.is_empty() {
        array.set_trailing("\n");
        array.set_trailing_comma(true);
    }
    array
}

#[cfg(test)]
mod tests {
    use toml_edit::DocumentMut;

    use super::*;

    #[track_caller]
    fn written(text: &str, new: &[&str]) -> String {
        let mut toml: DocumentMut = text.parse().unwrap();
        let array = toml["a"].as_array_mut().unwrap();
        let old: Vec<String> = array.iter().map(|value| value.as_str().unwrap().to_owned()).collect();
        let new: Vec<String> = new.iter().map(ToString::to_string).collect();
        write(array, &change(&old, &new));
        let text = toml.to_string();
        let read: DocumentMut = text.parse().unwrap();
        let read: Vec<&str> = read["a"].as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect();
        assert_eq!(read, new, "{text}");
        text
    }

    #[test]
    fn items_that_stay_keep_their_comments_and_their_spelling() {
        let text = "a = [\n  # the first\n  'x', # of x\n  \"y\",\n]\n";
        assert_eq!(written(text, &["x", "y"]), text);
        assert_eq!(written(text, &["x", "z", "y"]), "a = [\n  # the first\n  'x', # of x\n  \"z\",\n  \"y\",\n]\n");
        assert_eq!(written(text, &["x", "y", "z"]), "a = [\n  # the first\n  'x', # of x\n  \"y\",\n  \"z\",\n]\n");
        assert_eq!(written(text, &["x"]), "a = [\n  # the first\n  'x', # of x\n]\n");
        assert_eq!(written(text, &["y"]), "a = [\n  \"y\",\n]\n");
        assert_eq!(written("a = [\"x\", \"y\"]\n", &["z", "y", "w"]), "a = [\"z\", \"y\", \"w\"]\n");
        assert_eq!(written("a = [\"x\"]\n", &[]), "a = []\n");
        assert_eq!(written("a = []\n", &["x", "y"]), "a = [\"x\", \"y\"]\n");
    }
}
