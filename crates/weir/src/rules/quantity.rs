//! Numbers as people write them: `1500`, `10k`, `2.5M`.

/// The suffixes of numbers, with the number of zeros that each stands for, the greatest first.
const MULTIPLES: [(char, usize); 3] = [('G', 9), ('M', 6), ('k', 3)];

/// A whole number once multiplied. More than a u64 holds is taken as its greatest value.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let multiple = MULTIPLES.iter().find_map(|&(letter, zeros)| Some((text.strip_suffix(letter)?, zeros)));
    let (number, zeros) = multiple.unwrap_or((text, 0));
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction.trim_end_matches('0')),
        Some(_) => return None,
        None => (number, ""),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > zeros {
        return None;
    }
    let zeros = "0".repeat(zeros - fraction.len());
    Some(format!("{whole}{fraction}{zeros}").parse().unwrap_or(u64::MAX))
}

/// A number in as few digits as a multiple makes it, without a fraction.
pub(crate) fn print(number: u64) -> String {
    let by = |&&(_, zeros): &&(char, usize)| number > 0 && number.is_multiple_of(10u64.pow(zeros as u32));
    match MULTIPLES.iter().find(by) {
        Some(&(letter, zeros)) => format!("{}{letter}", number / 10u64.pow(zeros as u32)),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (text, expected) in [
            ("1500", Some(1500)),
            ("10k", Some(10_000)),
            ("2.5M", Some(2_500_000)),
            ("2.50k", Some(2500)),
            ("1G", Some(1_000_000_000)),
            ("0.001k", Some(1)),
            ("99999999999999999999G", Some(u64::MAX)),
            ("1.5", None),
            ("1.0001k", None),
            ("1.k", None),
            (".5k", None),
            ("-1", None),
            ("1K", None),
            ("1kk", None),
            ("1kM", None),
            ("k", None),
            ("", None),
            ("1e6", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1000, "1k"), (1500, "1500"), (2_500_000, "2500k"), (3_000_000_000, "3G")]
        {
            assert_eq!((print(number).as_str(), parse(&print(number))), (expected, Some(number)));
        }
        assert_eq!(parse(&print(u64::MAX)), Some(u64::MAX));
    }
}
