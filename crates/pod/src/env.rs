//! Parses environment variables into typed settings. The names are in [`domain::contract::environment`].

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub use domain::contract::environment::*;
use reqwest::Url;
use units::duration::parse_or_seconds;

/// Looks up a variable. Injected, so that tests do not change the process.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The lookup of the real process.
pub fn process(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A variable is missing or invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingError {
    /// A variable without a default is not set.
    #[error("{name} is not set; set it to {expected}")]
    Missing {
        name: &'static str,
        /// Description of a valid value.
        expected: &'static str,
    },
    /// The value does not parse.
    #[error("{name} cannot be used ({problem}); set it to {expected}")]
    Invalid {
        name: &'static str,
        /// The error, never the value of a secret.
        problem: String,
        /// Description of a valid value.
        expected: &'static str,
    },
}

/// The value. An empty one counts as unset, because Kubernetes writes optional Secret keys that way.
pub fn text(env: Lookup<'_>, name: &str) -> Option<String> {
    env(name).filter(|value| !value.is_empty())
}

/// A required value.
pub fn required(env: Lookup<'_>, name: &'static str, expected: &'static str) -> Result<String, SettingError> {
    text(env, name).ok_or(SettingError::Missing { name, expected })
}

/// A path, or its default.
pub fn path(env: Lookup<'_>, name: &str, default: &str) -> PathBuf {
    PathBuf::from(text(env, name).unwrap_or_else(|| default.to_owned()))
}

/// A required URL.
pub fn url(env: Lookup<'_>, name: &'static str, expected: &'static str) -> Result<Url, SettingError> {
    let address = required(env, name, expected)?;
    Url::parse(address.trim()).map_err(|error| SettingError::Invalid { name, problem: error.to_string(), expected })
}

/// A number, or its default.
pub fn number<T: FromStr>(env: Lookup<'_>, name: &'static str, default: T) -> Result<T, SettingError> {
    match text(env, name) {
        None => Ok(default),
        Some(value) => value.trim().parse().map_err(|_| SettingError::Invalid {
            name,
            problem: format!("`{value}` is not a number in range"),
            expected: "a whole number that is not negative",
        }),
    }
}

/// `true`/`1`/`yes`, or `false`/`0`/`no`/unset.
pub fn flag(env: Lookup<'_>, name: &'static str) -> Result<bool, SettingError> {
    match text(env, name).map(|value| value.trim().to_ascii_lowercase()).as_deref() {
        None | Some("false" | "0" | "no") => Ok(false),
        Some("true" | "1" | "yes") => Ok(true),
        Some(other) => Err(SettingError::Invalid {
            name,
            problem: format!("`{other}` is neither true nor false"),
            expected: "true or false",
        }),
    }
}

/// `30` (seconds), `30s`, `500ms`, `5m` or `1h`; zero is refused, because every wait has a limit.
pub fn duration(env: Lookup<'_>, name: &'static str, default: Duration) -> Result<Duration, SettingError> {
    let Some(value) = text(env, name) else { return Ok(default) };
    let value = value.trim();
    let parsed = parse_or_seconds(value);
    // A century: longer than any useful value, and far below the overflow of clocks.
    parsed.filter(|duration| !duration.is_zero() && duration.as_secs() < 3_200_000_000).ok_or_else(|| {
        SettingError::Invalid {
            name,
            problem: format!("`{value}` is not a duration"),
            expected: "a positive duration such as 30, 30s, 500ms or 5m",
        }
    })
}

/// JSON, or the type's default.
pub fn json<T: serde::de::DeserializeOwned + Default>(
    env: Lookup<'_>,
    name: &'static str,
    expected: &'static str,
) -> Result<T, SettingError> {
    match text(env, name) {
        None => Ok(T::default()),
        Some(value) => serde_json::from_str(&value).map_err(|error| SettingError::Invalid {
            name,
            problem: format!("line {} column {} is not what was expected", error.line(), error.column()),
            expected,
        }),
    }
}

/// An octal file mode such as `0644`; only the permission bits.
pub fn mode(env: Lookup<'_>, name: &'static str) -> Result<Option<u32>, SettingError> {
    let Some(value) = text(env, name) else { return Ok(None) };
    match u32::from_str_radix(value.trim().trim_start_matches("0o"), 8) {
        Ok(mode) if mode <= 0o777 => Ok(Some(mode)),
        _ => Err(SettingError::Invalid {
            name,
            problem: format!("`{value}` is not an octal mode"),
            expected: "an octal mode from 0000 to 0777",
        }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A lookup over a fixed list.
    pub(crate) fn of<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        let check = |value: &str, expected: Option<Duration>| {
            let pairs = [("D", value)];
            let env = of(&pairs);
            assert_eq!(duration(&env, "D", Duration::from_secs(9)).ok(), expected, "{value}");
        };
        check("", Some(Duration::from_secs(9)));
        check("30", Some(Duration::from_secs(30)));
        check("500ms", Some(Duration::from_millis(500)));
        check("5m", Some(Duration::from_mins(5)));
        check("1h", Some(Duration::from_hours(1)));
        check("0", None);
        check("soon", None);
        check("-1s", None);
        check("99999999999999999999", None);
        check("99999999999999h", None);
    }

    #[test]
    fn modes_are_octal_and_hold_only_permissions() {
        let check = |value: &str, expected: Option<u32>| {
            let pairs = [("M", value)];
            assert_eq!(mode(&of(&pairs), "M").ok().flatten(), expected, "{value}");
        };
        check("0644", Some(0o644));
        check("755", Some(0o755));
        check("4755", None);
        check("999", None);
    }

    #[test]
    fn an_error_says_what_to_set() {
        let error = required(&of(&[]), GIT_REPO, "the URL of a git repository").unwrap_err();
        assert_eq!(error.to_string(), "GIT_REPO is not set; set it to the URL of a git repository");
        let error = flag(&of(&[("URL_INSECURE", "maybe")]), URL_INSECURE).unwrap_err();
        assert_eq!(
            error.to_string(),
            "URL_INSECURE cannot be used (`maybe` is neither true nor false); set it to true or false"
        );
    }

    #[test]
    fn a_json_error_does_not_repeat_the_value() {
        let pairs = [(URL_HEADERS, r#"{"Authorization": "Bearer hunter2""#)];
        let error = json::<Vec<String>>(&of(&pairs), URL_HEADERS, "a JSON list").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    /// Each helper must read its variables by the constants of the contract, so that the reference lists them all.
    #[test]
    fn variables_are_named_by_the_contract_alone() {
        fn check(directory: &std::path::Path) {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    check(&path);
                    continue;
                }
                let source = std::fs::read_to_string(&path).unwrap();
                let code = source.split("#[cfg(test)]").next().unwrap_or_default();
                let readers = ["text", "required", "path", "url", "number", "flag", "duration", "json", "mode"];
                for reader in readers {
                    let literal = format!("env::{reader}(env, \"");
                    assert!(!code.contains(&literal), "{}: {literal}", path.display());
                }
            }
        }
        check(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    }
}
