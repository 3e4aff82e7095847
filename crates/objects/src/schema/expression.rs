//! CEL expressions: compiled once, evaluated many times.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, operators};
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{AsKeyRef, Key, OptionalValue};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};

use super::cel_value::Used;
use super::pattern;

/// The name of our function for `a.?b`.
const OPTIONAL_SELECT: &str = "optional.select";

/// Maximum number of cached expressions: more than all definitions of a large cluster have. A full cache is cleared.
const MAX_STORED: usize = 4096;

/// Cache of compiled expressions: the kinds of a product share many, and compiling one takes longer than evaluating it
/// a thousand times.
static STORED: LazyLock<Mutex<HashMap<String, Arc<Expression>>>> = LazyLock::new(Mutex::default);

/// Types that have a name in CEL.
const TYPES: [&str; 9] = ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type"];

thread_local! {
    /// The functions for rules. A context cannot be shared between threads.
    static FUNCTIONS: Context<'static> = functions();
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// Invalid CEL, or CEL that is not supported here.
    #[error("compilation failed: {0}")]
    Compile(String),
    #[error("no such overload")]
    NoSuchOverload,
    #[error("{0}")]
    Run(String),
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {
    root: IdedExpr,
    /// The fields of `self` that it uses.
    pub of_self: Used,
    /// The fields of `oldSelf` that it uses; `None` if it does not use `oldSelf`.
    pub of_old_self: Option<Used>,
}

impl Expression {
    /// The expression from the cache, or compiled now.
    pub fn shared(text: &str) -> Result<Arc<Self>, ExpressionError> {
        let stored = || STORED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = stored().get(text) {
            return Ok(Arc::clone(found));
        }
        // Without the lock, so that other threads do not wait.
        let read = Arc::new(Self::compile(text)?);
        let mut stored = stored();
        if stored.len() >= MAX_STORED {
            stored.clear();
        }
        stored.insert(text.to_owned(), Arc::clone(&read));
        Ok(read)
    }

    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        let parser = Parser::default().enable_optional_syntax(true);
        let mut root = parser.parse(text).map_err(|errors| ExpressionError::Compile(errors.to_string()))?;
        prepare(&mut root)?;
        let of_self = used(&root, "self").unwrap_or(Used::Fields(Vec::new()));
        let of_old_self = used(&root, "oldSelf");
        Ok(Self { root, of_self, of_old_self })
    }

    pub fn evaluate(&self, variables: &[(&str, Cel)]) -> Result<Cel, ExpressionError> {
        FUNCTIONS.with(|functions| {
            let mut context = functions.new_inner_scope();
            for (name, value) in variables {
                context.add_variable_from_value(*name, value.clone());
            }
            Cel::resolve(&self.root, &context).map_err(explain)
        })
    }
}

/// The value of `oldSelf` for a rule with optionalOldSelf.
pub fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("size", size);
    context.add_function("matches", matches);
    context.add_function(OPTIONAL_SELECT, select);
    context.add_function("type", type_of);
    for name in TYPES {
        context.add_variable_from_value(name, type_named(name));
    }
    context
}

/// The number of characters, items or entries; the built-in function of the cel crate counts bytes.
fn size(This(this): This<Cel>) -> Result<i64, ExecutionError> {
    let size = match this {
        Cel::List(items) => items.len(),
        Cel::Map(map) => map.map.len(),
        Cel::String(text) => text.chars().count(),
        Cel::Bytes(bytes) => bytes.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(i64::try_from(size).unwrap_or(i64::MAX))
}

/// The type of a value, for comparison with a type name.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a function of CEL")]
fn type_of(value: Cel) -> Result<Cel, ExecutionError> {
    Ok(type_named(match value {
        Cel::Bool(_) => "bool",
        Cel::Int(_) => "int",
        Cel::UInt(_) => "uint",
        Cel::Float(_) => "double",
        Cel::String(_) => "string",
        Cel::Bytes(_) => "bytes",
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::Null => "null_type",
        _ => return Err(ExecutionError::NoSuchOverload),
    }))
}

/// A type as a value: a string that does not occur by chance.
fn type_named(name: &str) -> Cel {
    Cel::String(Arc::new(format!("type {name}")))
}

/// Matches a Go pattern, from the cache of patterns.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a function of CEL")]
fn matches(This(this): This<Arc<String>>, pattern: Arc<String>) -> Result<bool, ExecutionError> {
    let broken = || ExecutionError::function_error("matches", format!("error parsing regexp: {pattern}"));
    pattern::matches(&pattern, &this).ok_or_else(broken)
}

/// `a.?b`: an optional with the field, or an empty one.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a function of CEL")]
fn select(operand: Cel, field: Arc<String>) -> Result<Cel, ExecutionError> {
    let key = Key::String(field);
    let found = |value: &Cel| match value {
        Cel::Map(map) => Ok(map.get(&key as &(dyn AsKeyRef + '_)).cloned()),
        _ => Err(ExecutionError::NoSuchOverload),
    };
    match <&OptionalValue>::try_from(&operand) {
        Ok(inner) => inner.value().map(found).transpose().map(|value| optional(value.flatten())),
        Err(_) => found(&operand).map(optional),
    }
}

/// Rewrites what the cel crate evaluates differently, and rejects what it does not support.
fn prepare(node: &mut IdedExpr) -> Result<(), ExpressionError> {
    match &mut node.expr {
        Expr::Unspecified => return Err(ExpressionError::Compile("an empty expression".to_owned())),
        Expr::Struct(message) => {
            return Err(ExpressionError::Compile(format!("undeclared reference to '{}'", message.type_name)));
        }
        Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Call(call) => {
            if call.func_name == operators::OPT_SELECT {
                OPTIONAL_SELECT.clone_into(&mut call.func_name);
            }
            if let Some(target) = &mut call.target {
                prepare(target)?;
            }
            call.args.iter_mut().try_for_each(prepare)?;
        }
        Expr::Comprehension(walk) => {
            let parts =
                [&mut walk.iter_range, &mut walk.accu_init, &mut walk.loop_cond, &mut walk.loop_step, &mut walk.result];
            parts.into_iter().try_for_each(prepare)?;
        }
        Expr::List(list) => list.elements.iter_mut().try_for_each(prepare)?,
        Expr::Map(map) => {
            for entry in &mut map.entries {
                match &mut entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        prepare(&mut entry.key)?;
                        prepare(&mut entry.value)?;
                    }
                    EntryExpr::StructField(_) => {
                        return Err(ExpressionError::Compile("a field outside of a message".to_owned()));
                    }
                }
            }
        }
        Expr::Select(select) => prepare(&mut select.operand)?,
    }
    Ok(())
}

/// The fields of a variable that an expression uses; `None` if it does not use the variable. A comprehension may shadow
/// the name: that only prepares more fields than needed.
fn used(node: &IdedExpr, variable: &str) -> Option<Used> {
    let mut found = None;
    collect(node, variable, &mut found);
    found
}

fn collect(node: &IdedExpr, variable: &str, found: &mut Option<Used>) {
    match &node.expr {
        Expr::Ident(name) if name == variable => *found = Some(Used::All),
        Expr::Unspecified | Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Select(select) if matches!(&select.operand.expr, Expr::Ident(name) if name == variable) => {
            match found.get_or_insert_with(|| Used::Fields(Vec::new())) {
                Used::Fields(fields) if !fields.contains(&select.field) => fields.push(select.field.clone()),
                Used::Fields(_) | Used::All => {}
            }
        }
        Expr::Select(select) => collect(&select.operand, variable, found),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).for_each(|part| {
            collect(part, variable, found);
        }),
        Expr::Comprehension(walk) => {
            for part in [&walk.iter_range, &walk.accu_init, &walk.loop_cond, &walk.loop_step, &walk.result] {
                collect(part, variable, found);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(|part| collect(part, variable, found)),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    collect(&entry.key, variable, found);
                    collect(&entry.value, variable, found);
                }
            }
        }
    }
}

/// The error message of cel-go.
fn explain(error: ExecutionError) -> ExpressionError {
    use ExecutionError as E;
    ExpressionError::Run(match error {
        E::NoSuchKey(key) => format!("no such key: {key}"),
        E::DivisionByZero(_) => "division by zero".to_owned(),
        E::RemainderByZero(_) => "modulus by zero".to_owned(),
        E::Overflow(..) => "integer overflow".to_owned(),
        E::IndexOutOfBounds(Cel::Int(index)) => format!("index out of bounds: {index}"),
        E::FunctionError { function, .. } if function == "duration" => conversion_error("Duration"),
        E::FunctionError { function, .. } if function == "timestamp" => conversion_error("Timestamp"),
        E::FunctionError { message, .. } => message,
        E::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        E::InvalidArgumentCount { .. }
        | E::UnsupportedTargetType { .. }
        | E::NotSupportedAsMethod { .. }
        | E::UnexpectedType { .. }
        | E::NoSuchOverload
        | E::ValuesNotComparable(..)
        | E::UnsupportedUnaryOperator(..)
        | E::UnsupportedBinaryOperator(..)
        | E::UnsupportedMapIndex(_)
        | E::UnsupportedListIndex(_)
        | E::UnsupportedIndex(..) => return ExpressionError::NoSuchOverload,
        other => other.to_string(),
    })
}

fn conversion_error(kind: &str) -> String {
    format!("type conversion error from 'string' to 'google.protobuf.{kind}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<Cel, ExpressionError> {
        Expression::compile(text)?.evaluate(&[])
    }

    #[test]
    fn expressions_give_what_kubernetes_gives() {
        for text in [
            "'äöü'.size() == 3 && size('äöü') == 3",
            "'abc'.matches('^a') && !'٣'.matches(r'^\\d$')",
            "{'a': 1}.?a.orValue(2) == 1",
            "{'a': 1}.?b.orValue(2) == 2",
            "!{'a': {'b': 1}}.?a.?c.hasValue()",
            "{'a': {'b': 1}}.?a.?b.value() == 1",
            "!optional.none().?a.hasValue()",
            "[1, 2].all(x, x > 0) && [1, 2].exists(x, x == 2)",
            "duration('1m') > duration('10s')",
            "quantity('1Gi').isGreaterThan(quantity('500Mi'))",
            "[true, false].filter(x, x).size() == 1",
            "type(1) == int && type('a') != int && type([1]) == list",
            "true || 1 / 0 > 0",
            "1 / 0 > 0 || true",
        ] {
            assert_eq!(value(text), Ok(Cel::Bool(true)), "{text}");
        }
    }

    #[test]
    fn errors_have_the_messages_of_cel_go() {
        let run = |text: &str| ExpressionError::Run(text.to_owned());
        assert_eq!(value("{'a': 1}.b == 1"), Err(run("no such key: b")));
        assert_eq!(value("1 / 0 == 1"), Err(run("division by zero")));
        assert_eq!(value("[1][3] == 1"), Err(run("index out of bounds: 3")));
        let duration = "type conversion error from 'string' to 'google.protobuf.Duration'";
        assert_eq!(value("duration('x') > duration('1s')"), Err(run(duration)));
        assert_eq!(value("'a' + 1 == 'b'"), Err(ExpressionError::NoSuchOverload));
        assert!(matches!(value("1 +"), Err(ExpressionError::Compile(_))));
        assert!(matches!(value("Foo{a: 1} == 1"), Err(ExpressionError::Compile(_))));
    }

    #[test]
    fn an_expression_knows_what_it_looks_at() {
        let check = |text: &str, of_self: Used, of_old_self: Option<Used>| {
            let expression = Expression::compile(text).expect("it can be read");
            assert_eq!((expression.of_self, expression.of_old_self), (of_self, of_old_self), "{text}");
        };
        let fields = |names: &[&str]| Used::Fields(names.iter().map(ToString::to_string).collect());
        check("has(self.a) && self.b.c == 1", fields(&["a", "b"]), None);
        check("self == oldSelf", Used::All, Some(Used::All));
        check(
            "!has(oldSelf.status) || self.spec == oldSelf.spec",
            fields(&["spec"]),
            Some(fields(&["status", "spec"])),
        );
        check("self.all(x, x > 0)", Used::All, None);
        check("true", fields(&[]), None);
    }
}
