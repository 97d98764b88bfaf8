use super::*;

fn refused(text: &str) -> String {
    text.parse::<Rule>().expect_err(text).to_string()
}

#[test]
fn rules_print_as_they_were_read() {
    for text in [
        "permit from 2001:db8::/32 on cust1",
        "permit from 192.0.2.0/24 on cust1, cust2.100 comment \"a \\\"b\\\" \\\\ c # d\"",
        "deny from any on any",
        "permit from any on on, from comment \"\"",
        "permit from 0.0.0.0/0 on comment",
    ] {
        assert_eq!(text.parse::<Rule>().map(|rule| rule.to_string()), Ok(text.to_owned()));
    }
    let loose = "\tpermit  from 2001:DB8:0::/32 on a ,b,c comment\"x\" # not part of it";
    let rule: Rule = loose.parse().expect("a rule");
    assert_eq!(rule.to_string(), "permit from 2001:db8::/32 on a, b, c comment \"x\"");
}
