//! Compares the objects of two configurations.

use std::collections::HashMap;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::objects::Object;
use crate::render::diff::Sign;

/// Lines of an object that are compared in their order; of longer objects, lines are compared as a set.
const ORDERED: usize = 50_000;

/// An object that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Its name.
    pub(crate) object: String,
    /// Whether one configuration has it alone.
    pub(crate) alone: Option<Sign>,
    /// Its lines that differ.
    pub(crate) lines: Vec<(Sign, String)>,
}

/// Compares two configurations, in the order of the second one; objects of the first alone come last.
pub(crate) fn compare(first: &[Object], second: &[Object]) -> Vec<Difference> {
    let mut before: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, object) in first.iter().enumerate().rev() {
        before.entry(&object.name).or_default().push(index);
    }
    let mut found = Vec::new();
    for new in second {
        let Some(old) = before.get_mut(new.name.as_str()).and_then(Vec::pop) else {
            let lines = new.lines.iter().map(|line| (Sign::Added, line.clone())).collect();
            found.push(Difference { object: new.name.clone(), alone: Some(Sign::Added), lines });
            continue;
        };
        let lines = differing(&first[old].lines, &new.lines);
        if !lines.is_empty() {
            found.push(Difference { object: new.name.clone(), alone: None, lines });
        }
    }
    let mut left: Vec<usize> = before.into_values().flatten().collect();
    left.sort_unstable();
    for old in left.into_iter().map(|index| &first[index]) {
        let lines = old.lines.iter().map(|line| (Sign::Removed, line.clone())).collect();
        found.push(Difference { object: old.name.clone(), alone: Some(Sign::Removed), lines });
    }
    found
}

fn differing(old: &[String], new: &[String]) -> Vec<(Sign, String)> {
    if old == new {
        return Vec::new();
    }
    let removed = |line: &String| (Sign::Removed, line.clone());
    let added = |line: &String| (Sign::Added, line.clone());
    if old.len().max(new.len()) > ORDERED {
        return unordered(old, new);
    }
    let mut lines = Vec::new();
    for op in capture_diff_slices(Algorithm::Patience, old, new) {
        match op {
            DiffOp::Equal { .. } => {}
            _ => {
                lines.extend(old[op.old_range()].iter().map(removed));
                lines.extend(new[op.new_range()].iter().map(added));
            }
        }
    }
    lines
}

fn unordered(old: &[String], new: &[String]) -> Vec<(Sign, String)> {
    let mut counts: HashMap<&str, i64> = HashMap::new();
    new.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    let mut lines = Vec::new();
    for line in old {
        match counts.get_mut(line.as_str()).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => lines.push((Sign::Removed, line.clone())),
        }
    }
    for line in new {
        if let Some(count) = counts.get_mut(line.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            lines.push((Sign::Added, line.clone()));
        }
    }
    lines
}
