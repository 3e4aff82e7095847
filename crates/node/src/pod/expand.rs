//! `$(NAME)` in commands, arguments and values.

/// Replaces `$(NAME)` by the value that `lookup` returns. Unknown names stay unchanged, and `$$` is an escaped dollar
/// sign: `$$(NAME)` becomes `$(NAME)`.
pub(crate) fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(behind) = after.strip_prefix('$') {
            expanded.push('$');
            rest = behind;
        } else if let Some((name, behind)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match lookup(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&rest[at..rest.len() - behind.len()]),
            }
            rest = behind;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_by_the_rules_of_kubernetes() {
        let lookup = |name: &str| match name {
            "A" => Some("one"),
            "EMPTY" => Some(""),
            "DOLLAR" => Some("$(A)"),
            _ => None,
        };
        let check = |text: &str, expected: &str| assert_eq!(expand(text, lookup), expected, "{text}");
        check("plain", "plain");
        check("$(A)-$(A)", "one-one");
        check("$(EMPTY)x", "x");
        check("$(UNKNOWN)", "$(UNKNOWN)");
        check("$$(A)", "$(A)");
        check("$$$(A)", "$one");
        check("$$$$(A)", "$$(A)");
        check("$A $", "$A $");
        check("$(A", "$(A");
        check("$(DOLLAR)", "$(A)");
        check("x$(sh -c 'echo $(A)')", "x$(sh -c 'echo $(A)')");
    }
}
