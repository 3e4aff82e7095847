//! Where two answers differ, for a person.

use serde_json::Value;

use crate::play::Exchange;

/// The first difference between two plays of a sequence, after the requests that led to it.
pub fn difference(number: u64, ours: &[Exchange], real: &[Exchange]) -> Option<String> {
    let at = ours.iter().zip(real).position(|(ours, real)| ours.answer != real.answer)?;
    let mut lines = vec![format!("sequence {number}")];
    for exchange in &ours[..at] {
        lines.push(format!("  {:.1200}\n    -> {}", exchange.request, exchange.answer.code));
    }
    let (ours, real) = (&ours[at], &real[at]);
    lines.push(format!("  {:.1200}", ours.request));
    if ours.answer.code != real.answer.code {
        lines.push(format!("    code: ours {}, real {}", ours.answer.code, real.answer.code));
    }
    if ours.answer.warnings != real.answer.warnings {
        lines.push(format!(
            "    warnings\n      ours: {:?}\n      real: {:?}",
            ours.answer.warnings, real.answer.warnings
        ));
    }
    let refused = ours.answer.code >= 300 || real.answer.code >= 300;
    if refused {
        let messages = |exchange: &Exchange| {
            let message = exchange.answer.bodies.first().map(|body| body["message"].clone());
            message.unwrap_or_default().to_string()
        };
        lines.push(format!("    ours: {:.1500}\n    real: {:.1500}", messages(ours), messages(real)));
    }
    if ours.answer.bodies.len() != real.answer.bodies.len() {
        lines.push(format!("    events: ours {}, real {}", ours.answer.bodies.len(), real.answer.bodies.len()));
    }
    if ours.answer.code == real.answer.code {
        for (index, (ours, real)) in ours.answer.bodies.iter().zip(&real.answer.bodies).enumerate() {
            compare(&format!("[{index}]"), Some(ours), Some(real), &mut lines);
        }
    }
    lines.truncate(60);
    Some(lines.join("\n"))
}

fn compare(path: &str, ours: Option<&Value>, real: Option<&Value>, lines: &mut Vec<String>) {
    match (ours, real) {
        (Some(Value::Object(ours)), Some(Value::Object(real))) => {
            let mut names: Vec<&String> = ours.keys().chain(real.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                compare(&format!("{path}.{name}"), ours.get(name), real.get(name), lines);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(real))) => {
            for index in 0..ours.len().max(real.len()) {
                compare(&format!("{path}[{index}]"), ours.get(index), real.get(index), lines);
            }
        }
        (ours, real) if ours == real => {}
        (ours, real) => {
            let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            lines.push(format!("    {path}\n      ours: {:.1500}\n      real: {:.1500}", shown(ours), shown(real)));
        }
    }
}
