//! Validation of names, with the messages of Kubernetes.

use super::pattern::matches;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";
const QUALIFIED_SENTENCE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                                  an alphanumeric character";

/// A message with examples and the pattern.
fn sentence(sentence: &str, pattern: &str, examples: &[&str]) -> String {
    let examples = examples.iter().map(|example| format!("'{example}', ")).collect::<Vec<_>>().join(" or ");
    format!("{sentence} (e.g. {examples}regex used for validation is '{pattern}')")
}

fn fits(pattern: &str, name: &str) -> bool {
    matches(&format!("^{pattern}$"), name) == Some(true)
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

/// Validates a DNS label, such as the name of a Namespace.
pub fn dns_1123_label(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 63 {
        found.push(too_long(63));
    }
    if !fits(LABEL, name) {
        if fits(SUBDOMAIN, name) {
            // Only dots are wrong.
            found.push("must not contain dots".to_owned());
        } else {
            found.push(sentence(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            ));
        }
    }
    found
}

/// Validates a DNS subdomain, such as the name of a Pod.
pub fn dns_1123_subdomain(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 253 {
        found.push(too_long(253));
    }
    if !fits(SUBDOMAIN, name) {
        found.push(sentence(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    found
}

/// Validates a DNS label that starts with a letter, such as the name of a Service.
pub fn dns_1035_label(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 63 {
        found.push(too_long(63));
    }
    if !fits(LABEL_1035, name) {
        found.push(sentence(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            LABEL_1035,
            &["my-name", "abc-123"],
        ));
    }
    found
}

/// Validates the key of a label or an annotation: an optional domain, a slash, and a name.
pub fn qualified_name(name: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let (prefix, part) = match name.split_once('/') {
        Some((_, part)) if part.contains('/') => {
            let text = sentence(&format!("a qualified name {QUALIFIED_SENTENCE}"), QUALIFIED, &examples);
            return vec![format!("{text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")];
        }
        Some((prefix, part)) => (Some(prefix), part),
        None => (None, name),
    };
    let mut found = Vec::new();
    match prefix {
        Some("") => found.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => found.extend(dns_1123_subdomain(prefix).into_iter().map(|text| format!("prefix part {text}"))),
        None => {}
    }
    if part.is_empty() {
        found.push("name part must be non-empty".to_owned());
    } else if part.len() > 63 {
        found.push(format!("name part {}", too_long(63)));
    }
    if !fits(QUALIFIED, part) {
        found.push(sentence(&format!("name part {QUALIFIED_SENTENCE}"), QUALIFIED, &examples));
    }
    found
}

pub fn label_value(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    if value.len() > 63 {
        found.push(too_long(63));
    }
    if !fits(LABEL_VALUE, value) {
        found.push(sentence(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    found
}

/// Validates a key of a ConfigMap or a Secret.
pub fn config_key(key: &str) -> Vec<String> {
    let mut found = Vec::new();
    if key.len() > 253 {
        found.push(too_long(253));
    }
    if !fits(CONFIG_KEY, key) {
        found.push(sentence(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            CONFIG_KEY,
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." | ".." => found.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => found.push("must not start with '..'".to_owned()),
        _ => {}
    }
    found
}

pub fn environment_variable(name: &str) -> Vec<String> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

pub fn port_name(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 15 {
        found.push("must be no more than 15 characters".to_owned());
    }
    if !fits("[-a-z0-9]+", name) {
        found.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        found.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        found.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        found.push("must not begin or end with a hyphen".to_owned());
    }
    found
}

/// Validates a name that only has to fit into a URL path, such as that of a Role.
pub fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let bad = ["/", "%"].into_iter().filter(|letter| name.contains(letter));
    bad.map(|letter| format!("may not contain '{letter}'")).collect()
}

/// Whether a string is a quantity, such as `500m` or `1Gi`.
pub fn is_quantity(text: &str) -> bool {
    fits(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?[0-9]+)?", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass() {
        assert_eq!(dns_1123_label("a-1"), Vec::<String>::new());
        assert_eq!(dns_1123_subdomain("a.b-1"), Vec::<String>::new());
        assert_eq!(dns_1035_label("a-1"), Vec::<String>::new());
        assert_eq!(qualified_name("example.com/A_b.c"), Vec::<String>::new());
        assert_eq!(label_value(""), Vec::<String>::new());
        assert_eq!(config_key("tls.crt"), Vec::<String>::new());
        assert_eq!(port_name("http-1"), Vec::<String>::new());
    }

    #[test]
    fn a_bad_name_gets_the_message_of_kubernetes() {
        assert_eq!(
            dns_1123_subdomain("A"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
              start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(
            label_value("a b")[0],
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        );
        assert_eq!(config_key(".."), ["must not be '..'"]);
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(dns_1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
    }
}
