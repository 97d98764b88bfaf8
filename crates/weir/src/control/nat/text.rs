//! Rules that come by the control socket, as a gateway takes them.

use weir_plane::model::{NatRule, Origin};

use super::super::remarks::Remarks;
use crate::render::remark::Remark;
use crate::rules::acl::Vocabulary;
use crate::rules::nat;

/// Reads the rules of a text, of a change of a batch or by itself; notes what is wrong or odd.
pub(super) fn rules(
    text: &str,
    change: Option<usize>,
    vocabulary: &Vocabulary,
    (errors, warnings): (&mut Remarks, &mut Remarks),
) -> Vec<NatRule> {
    let alone = change.is_some() && !text.contains('\n');
    let lines = match nat::read(text) {
        Ok((lines, odd)) => {
            warnings.of_text(change, alone, &odd);
            lines
        }
        Err(wrong) => {
            errors.of_text(change, alone, &wrong);
            return Vec::new();
        }
    };
    let mut rules = Vec::with_capacity(lines.len());
    for read in lines {
        match read.rule.model(vocabulary, Origin::default()) {
            Ok(rule) => rules.push(rule),
            Err(wrong) => {
                for finding in wrong.into_iter().map(|wrong| wrong.finding(&read.text)) {
                    errors.push(|| Remark {
                        change,
                        line: (!alone).then_some(read.line),
                        column: Some(finding.column + read.indent),
                        message: finding.message,
                        help: finding.help,
                        ..Remark::default()
                    });
                }
            }
        }
    }
    rules
}
