//! Suggestions for misspelt words.

/// The candidate within a third of the word's length in edits, the closest; of equally close ones the first by name.
pub(crate) fn closest(written: &str, candidates: impl IntoIterator<Item = impl AsRef<str>>) -> Option<String> {
    // Comparing a very long word with many others is quadratic and pointless.
    const LONGEST: usize = 64;
    const MOST: usize = 10_000;
    if written.len() > LONGEST {
        return None;
    }
    let allowed = (written.chars().count() / 3).max(1);
    let normal = written.to_ascii_lowercase().replace('_', "-");
    candidates
        .into_iter()
        .take(MOST)
        .map(|candidate| (strsim::damerau_levenshtein(&normal, candidate.as_ref()), candidate))
        .filter(|&(distance, _)| distance <= allowed)
        .map(|(distance, candidate)| (distance, candidate.as_ref().to_owned()))
        .min()
        .map(|(_, candidate)| candidate)
}
