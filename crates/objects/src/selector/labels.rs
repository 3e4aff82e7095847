//! Label selectors, as text (`a=b,c in (d,e),!f`) and as objects (`matchLabels`, `matchExpressions`).

use std::fmt;

use serde_json::{Map, Value};

use super::SelectorError;

/// All requirements must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub verb: Verb,
}

/// The condition of a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
    /// The label exists with this value.
    Equals(String),
    /// The label does not exist, or has another value.
    NotEquals(String),
    /// The label exists with one of these values.
    In(Vec<String>),
    /// The label does not exist, or has none of these values.
    NotIn(Vec<String>),
    /// The value is an integer greater than this one.
    GreaterThan(i64),
    /// The value is an integer less than this one.
    LessThan(i64),
}

impl Requirement {
    fn matches(&self, found: Option<&str>) -> bool {
        let number = || found.and_then(|text| text.parse::<i64>().ok());
        match &self.verb {
            Verb::Exists => found.is_some(),
            Verb::DoesNotExist => found.is_none(),
            Verb::Equals(value) => found == Some(value),
            Verb::NotEquals(value) => found != Some(value),
            Verb::In(values) => found.is_some_and(|found| values.iter().any(|value| value == found)),
            Verb::NotIn(values) => found.is_none_or(|found| values.iter().all(|value| value != found)),
            Verb::GreaterThan(limit) => number().is_some_and(|number| number > *limit),
            Verb::LessThan(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

impl LabelSelector {
    /// Parses the `labelSelector` parameter of a request.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser { tokens: scan(text), at: 0 };
        let mut requirements = parser.requirements().map_err(SelectorError)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Parses a LabelSelector object. `None` selects nothing, an empty object everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, SelectorError> {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Ok(Self { requirements: Vec::new(), nothing: true });
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(requirement(key, Operator::Equals, vec![value]).map_err(SelectorError)?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError(format!("{other:?} is not a valid label selector operator"))),
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(ToOwned::to_owned).collect();
            requirements.push(requirement(text("key"), operator, values).map_err(SelectorError)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The requirements, sorted by label.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether the object matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(object.pointer("/metadata/labels").and_then(Value::as_object))
    }

    /// Whether an object with these labels matches.
    pub fn matches_labels(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.selects(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }

    /// Whether an object matches whose labels `label` looks up.
    pub fn selects<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

/// The format of the `labelSelector` parameter.
impl fmt::Display for LabelSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = |values: &[String]| {
            let mut values = values.to_vec();
            values.sort();
            values.join(",")
        };
        let printed: Vec<String> = self
            .requirements
            .iter()
            .map(|Requirement { key, verb }| match verb {
                Verb::Exists => key.clone(),
                Verb::DoesNotExist => format!("!{key}"),
                Verb::Equals(value) => format!("{key}={value}"),
                Verb::NotEquals(value) => format!("{key}!={value}"),
                Verb::In(values) => format!("{key} in ({})", set(values)),
                Verb::NotIn(values) => format!("{key} notin ({})", set(values)),
                Verb::GreaterThan(limit) => format!("{key}>{limit}"),
                Verb::LessThan(limit) => format!("{key}<{limit}"),
            })
            .collect();
        out.write_str(&printed.join(","))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    Equals,
    NotEquals,
    In,
    NotIn,
    GreaterThan,
    LessThan,
}

fn requirement(key: &str, operator: Operator, values: Vec<String>) -> Result<Requirement, String> {
    let mut errors = Vec::new();
    let key_errors = name_errors(key);
    if !key_errors.is_empty() {
        errors.push(format!("key: Invalid value: {key:?}: {}", key_errors.join("; ")));
    }
    let shown = || {
        let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        format!("[{}]", quoted.join(","))
    };
    let mut number = 0;
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            errors.push(format!(
                "values: Invalid value: {}: for 'in', 'notin' operators, values set can't be empty",
                shown()
            ));
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            errors.push(format!(
                "values: Invalid value: {}: values set must be empty for exists and does not exist",
                shown()
            ));
        }
        Operator::GreaterThan | Operator::LessThan => {
            let value = values.first().map_or("", String::as_str);
            match value.parse() {
                Ok(parsed) => number = parsed,
                Err(_) => errors.push(format!(
                    "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                )),
            }
        }
        _ => {}
    }
    for (index, value) in values.iter().enumerate() {
        let value_errors = value_errors(value);
        if !value_errors.is_empty() {
            errors.push(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", value_errors.join("; ")));
        }
    }
    match &errors[..] {
        [] => {}
        [one] => return Err(one.clone()),
        many => return Err(format!("[{}]", many.join(", "))),
    }
    let verb = match operator {
        Operator::Exists => Verb::Exists,
        Operator::DoesNotExist => Verb::DoesNotExist,
        Operator::Equals => Verb::Equals(values.concat()),
        Operator::NotEquals => Verb::NotEquals(values.concat()),
        Operator::In => Verb::In(values),
        Operator::NotIn => Verb::NotIn(values),
        Operator::GreaterThan => Verb::GreaterThan(number),
        Operator::LessThan => Verb::LessThan(number),
    };
    Ok(Requirement { key: key.to_owned(), verb })
}

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                         is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn is_name(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(inside) && edge(text.chars().next()) && edge(text.chars().next_back())
}

/// The validation errors of a label key.
fn name_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain_errors(prefix).into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
        _ => {
            let rule = NAME_RULE.to_owned();
            return vec![format!(
                "a qualified name {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        errors.push(format!("name part {NAME_RULE}"));
    }
    errors
}

fn subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push("must be no more than 253 bytes".to_owned());
    }
    let label = |label: &str| {
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        label.chars().all(|c| edge(c) || c == '-') && label.starts_with(edge) && label.ends_with(edge)
    };
    if !text.split('.').all(label) {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    errors
}

fn value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `in` and `notin`, which are words where a word is expected.
    Keyword(&'static str),
    Symbol(&'static str),
    /// An invalid sequence of symbols.
    Error(String),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Error(text) => text,
            Self::Keyword(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }

    fn word(&self) -> Option<&str> {
        match self {
            Self::Word(text) => Some(text),
            Self::Keyword(text) => Some(text),
            _ => None,
        }
    }
}

const SYMBOLS: [&str; 9] = [")", ",", "!", "==", "=", ">", "<", "!=", "("];

fn scan(text: &str) -> Vec<Token> {
    let symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(space);
    while let Some(first) = rest.chars().next() {
        let length = if symbol(first) {
            let (token, length) = scan_symbol(rest);
            tokens.push(token);
            length
        } else {
            let length = rest.find(|c| symbol(c) || space(c)).unwrap_or(rest.len());
            tokens.push(match &rest[..length] {
                "in" => Token::Keyword("in"),
                "notin" => Token::Keyword("notin"),
                word => Token::Word(word.to_owned()),
            });
            length
        };
        rest = rest[length..].trim_start_matches(space);
    }
    tokens.push(Token::End);
    tokens
}

/// The longest symbol at the start of the text.
fn scan_symbol(text: &str) -> (Token, usize) {
    let found = SYMBOLS.into_iter().filter(|symbol| text.starts_with(symbol)).max_by_key(|symbol| symbol.len());
    match found {
        Some(symbol) => (Token::Symbol(symbol), symbol.len()),
        None => (Token::Error(format!("error expected: keyword found '{text}'")), text.len()),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let starts = |token: &Token| token.word().is_some() || *token == Token::Symbol("!");
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                token if starts(&token) => {
                    let requirement =
                        self.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
                    requirements.push(requirement);
                    match self.next() {
                        Token::End => return Ok(requirements),
                        Token::Symbol(",") => {
                            let next = self.peek();
                            if !starts(&next) {
                                return Err(format!("found '{}', expected: identifier after ','", next.text()));
                            }
                        }
                        other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
                    }
                }
                other => {
                    return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token == Token::Symbol("!");
        if negated {
            token = self.next();
        }
        let Some(key) = token.word() else { return Err(format!("found '{}', expected: identifier", token.text())) };
        let errors = name_errors(key);
        if !errors.is_empty() {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", errors.join("; ")));
        }
        if negated {
            return requirement(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return requirement(key, Operator::Exists, Vec::new());
        }
        let operator = match self.next() {
            Token::Keyword("in") => Operator::In,
            Token::Keyword("notin") => Operator::NotIn,
            Token::Symbol("=" | "==") => Operator::Equals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            other => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
        };
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.value()?],
        };
        values.sort();
        values.dedup();
        requirement(key, operator, values)
    }

    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        let token = self.next();
        let value = token.word().map(ToOwned::to_owned);
        value.ok_or_else(|| format!("found '{}', expected: identifier", token.text()))
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        match self.peek() {
            Token::Symbol(")") => {
                self.next();
                return Ok(vec![String::new()]);
            }
            token if token.word().is_some() || token == Token::Symbol(",") => {}
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        // Nothing between two commas is the empty value.
        let mut values = Vec::new();
        loop {
            let token = self.next();
            if let Some(value) = token.word() {
                values.push(value.to_owned());
                match self.peek() {
                    Token::Symbol(",") => {}
                    Token::Symbol(")") => break,
                    other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                }
            } else if token == Token::Symbol(",") {
                if values.is_empty() {
                    values.push(String::new());
                }
                match self.peek() {
                    Token::Symbol(")") => {
                        values.push(String::new());
                        break;
                    }
                    Token::Symbol(",") => {
                        self.next();
                        values.push(String::new());
                    }
                    _ => {}
                }
            } else {
                return Err(format!("found '{}', expected: ',', or identifier", token.text()));
            }
        }
        self.next();
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(selector: &str, labels: Value, expected: bool) {
        let object = json!({"metadata": {"labels": labels}});
        assert_eq!(LabelSelector::parse(selector).unwrap().matches(&object), expected, "{selector} on {object}");
    }

    #[test]
    fn every_operator_matches_what_it_says() {
        check("", json!({}), true);
        check("a=b", json!({"a": "b"}), true);
        check("a==b", json!({"a": "c"}), false);
        check("a!=b", json!({}), true);
        check("a!=b", json!({"a": "b"}), false);
        check("a", json!({"a": ""}), true);
        check("!a", json!({"a": ""}), false);
        check("a in (x, y)", json!({"a": "y"}), true);
        check("a in (x,y)", json!({}), false);
        check("a notin (x)", json!({}), true);
        check("a notin (x)", json!({"a": "x"}), false);
        check("a>1", json!({"a": "2"}), true);
        check("a<1", json!({"a": "2"}), false);
        check("a>1", json!({"a": "many"}), false);
        check("a=b, c!=d ,e in (x,y),!f,g notin (z)", json!({"a": "b", "e": "x"}), true);
        check("a=", json!({"a": ""}), true);
        check("a in ()", json!({"a": ""}), true);
        check("in in (in)", json!({"in": "in"}), true);
        check("x in (foo,,baz),y,z notin ()", json!({"x": "", "y": "1"}), true);
        check("example.com/name=v", json!({"example.com/name": "v"}), true);
    }

    #[test]
    fn a_selector_is_printed_as_it_is_written() {
        for text in ["a=b,c!=d,e in (x,y),!f,g notin (z),h,i>1", ""] {
            assert_eq!(LabelSelector::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(LabelSelector::parse("b,a").unwrap().to_string(), "a,b");
    }

    #[track_caller]
    fn check_error(selector: &str, expected: &str) {
        assert_eq!(LabelSelector::parse(selector).unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_are_in_the_words_of_the_api_server() {
        check_error("a=b,", "found '', expected: identifier after ','");
        check_error("=b", "found '=', expected: !, identifier, or 'end of string'");
        check_error("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        check_error("a in x", "unable to parse requirement: found 'x' expected: '('");
        check_error("a=(b)", "unable to parse requirement: found '(', expected: identifier");
        check_error(
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an \
             integer",
        );
        check_error(
            "a@b=c",
            "unable to parse requirement: <nil>: Invalid value: \"a@b\": name part must consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
             'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        );
    }

    #[test]
    fn no_selector_object_selects_nothing_and_an_empty_one_everything() {
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        assert!(!LabelSelector::from_object(None).unwrap().matches(&object));
        assert!(LabelSelector::from_object(Some(&json!({}))).unwrap().matches(&object));
        let selector =
            json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]});
        assert!(LabelSelector::from_object(Some(&selector)).unwrap().matches(&object));
        let wrong = json!({"matchExpressions": [{"key": "c", "operator": "Near"}]});
        let error = LabelSelector::from_object(Some(&wrong)).unwrap_err();
        assert_eq!(error.to_string(), "\"Near\" is not a valid label selector operator");
    }
}
