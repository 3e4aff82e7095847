//! Which files belong to a set: paths and globs relative to a root.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

const MOST_PATTERNS: usize = 256;
const MOST_PATTERN_BYTES: usize = 1024;

/// Patterns such as `dist/**`, `*.log`, `a/b` and `!dist/tmp`.
///
/// `*` and `?` match within a component, `**` matches any number of components. A pattern that matches a directory means
/// everything below it. A pattern that begins with `!` excludes, wherever it stands; `.` is the whole root.
#[derive(Clone, Debug)]
pub struct Patterns {
    include: GlobSet,
    exclude: GlobSet,
    /// Matches the directories that can contain something that `include` matches.
    enter: GlobSet,
    /// Matches directories below which everything is excluded.
    prune: GlobSet,
}

/// Why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("the pattern \"{0}\" is empty; use `.` for everything")]
    Empty(String),
    #[error("the pattern \"{0}\" is absolute; write it relative to the directory that it selects from")]
    Absolute(String),
    #[error("the pattern \"{0}\" contains `..`; only files below the directory can be selected")]
    Parent(String),
    #[error("the pattern \"{pattern}\" is invalid: {reason}")]
    Syntax { pattern: String, reason: String },
    #[error("the pattern \"{0}…\" is longer than {MOST_PATTERN_BYTES} bytes")]
    Long(String),
    #[error("there are more than {MOST_PATTERNS} patterns")]
    Many,
    #[error("every pattern excludes (\"{0}\"); add one that selects files, such as `**`")]
    OnlyExcludes(String),
    #[error("the patterns are too complex together: {0}")]
    Complex(String),
}

impl Patterns {
    pub fn parse<S: AsRef<str>>(patterns: &[S]) -> Result<Self, PatternError> {
        if patterns.len() > MOST_PATTERNS {
            return Err(PatternError::Many);
        }
        let [mut include, mut exclude, mut enter, mut prune] = [(); 4].map(|()| GlobSetBuilder::new());
        let mut included = false;
        for text in patterns.iter().map(AsRef::as_ref) {
            let (excludes, glob) = match text.strip_prefix('!') {
                Some(rest) => (true, plain(rest, text)?),
                None => (false, plain(text, text)?),
            };
            let add = |set: &mut GlobSetBuilder, glob: &str| -> Result<(), PatternError> {
                let syntax = |error: &globset::Error| PatternError::Syntax {
                    pattern: text.to_owned(),
                    reason: error.kind().to_string(),
                };
                let glob = GlobBuilder::new(glob).literal_separator(true).build().map_err(|error| syntax(&error))?;
                set.add(glob);
                Ok(())
            };
            let below = format!("{glob}/**");
            if excludes {
                add(&mut exclude, &glob)?;
                add(&mut exclude, &below)?;
                add(&mut prune, glob.strip_suffix("/**").unwrap_or(&glob))?;
                continue;
            }
            included = true;
            for glob in [&glob, &below] {
                add(&mut include, glob)?;
                add(&mut enter, glob)?;
            }
            for above in parents(&glob) {
                add(&mut enter, &above)?;
            }
        }
        if let (false, Some(first)) = (included, patterns.first()) {
            return Err(PatternError::OnlyExcludes(first.as_ref().to_owned()));
        }
        let build = |set: GlobSetBuilder| set.build().map_err(|error| PatternError::Complex(error.kind().to_string()));
        Ok(Self { include: build(include)?, exclude: build(exclude)?, enter: build(enter)?, prune: build(prune)? })
    }

    /// Whether the file at `path`, relative to the root, belongs to the set.
    pub fn matches(&self, path: &[u8]) -> bool {
        let path = globset::Candidate::from_bytes(path);
        self.include.is_match_candidate(&path) && !self.exclude.is_match_candidate(&path)
    }

    /// Whether the directory at `path` can contain something that [`Patterns::matches`].
    pub(crate) fn enters(&self, path: &[u8]) -> bool {
        let path = globset::Candidate::from_bytes(path);
        self.enter.is_match_candidate(&path) && !self.prune.is_match_candidate(&path)
    }
}

/// The pattern without superfluous components: `./a//b/` is `a/b`.
fn plain(glob: &str, text: &str) -> Result<String, PatternError> {
    if text.len() > MOST_PATTERN_BYTES {
        return Err(PatternError::Long(text.chars().take(60).collect()));
    }
    if glob.trim().is_empty() {
        return Err(PatternError::Empty(text.to_owned()));
    }
    if glob.starts_with('/') {
        return Err(PatternError::Absolute(text.to_owned()));
    }
    let components: Vec<_> = glob.split('/').filter(|component| !matches!(*component, "" | ".")).collect();
    if components.contains(&"..") {
        return Err(PatternError::Parent(text.to_owned()));
    }
    Ok(if components.is_empty() { "**".to_owned() } else { components.join("/") })
}

/// Patterns of the directories above what `glob` matches. Where a component can match several, anything below counts:
/// this decides only which directories are searched.
fn parents(glob: &str) -> Vec<String> {
    let mut above = Vec::new();
    let mut path = String::new();
    for component in glob.split('/') {
        if component.contains("**") || component.contains(['{', '[', '\\']) {
            above.push(if path.is_empty() { "**".to_owned() } else { format!("{path}/**") });
            return above;
        }
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(component);
        above.push(path.clone());
    }
    above
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(patterns: &[&str]) -> Patterns {
        Patterns::parse(patterns).unwrap()
    }

    #[test]
    fn patterns_match_paths_relative_to_the_root() {
        let check = |given: &[&str], yes: &[&str], no: &[&str]| {
            let patterns = patterns(given);
            for path in yes {
                assert!(patterns.matches(path.as_bytes()), "{given:?} matches {path}");
                for (slash, _) in path.match_indices('/') {
                    assert!(patterns.enters(&path.as_bytes()[..slash]), "{given:?} enters {}", &path[..slash]);
                }
            }
            for path in no {
                assert!(!patterns.matches(path.as_bytes()), "{given:?} does not match {path}");
            }
        };
        check(
            &["dist/**"],
            &["dist/a", "dist/.hidden", "dist/a/b", "dist/line\nbreak"],
            &["dist", "a/dist/b", "distant"],
        );
        check(&["*.log"], &["a.log", ".log", "a.log/inside"], &["x/a.log", "a.logs"]);
        check(&["a/b"], &["a/b", "a/b/c", "a/b/c/d"], &["a", "a/bc", "x/a/b"]);
        check(&["./a//b/"], &["a/b", "a/b/c"], &["a/c"]);
        check(&["**/report.xml"], &["report.xml", "a/b/report.xml"], &["report.xmls", "a/xreport.xml"]);
        check(&["a/**/z"], &["a/z", "a/b/c/z"], &["a/zz", "z"]);
        check(&["."], &["a", "a/b", ".git/x"], &[]);
        check(&["**"], &["a", "a/b"], &[]);
        check(&["dist/**", "!dist/tmp/**"], &["dist/a", "dist/tmper"], &["dist/tmp/a", "dist/tmp/a/b"]);
        check(&["!**/*.map", "dist"], &["dist/a.js"], &["dist/a.map", "dist/x/a.map"]);
        check(&["!tmp", "**"], &["a/tmp"], &["tmp", "tmp/a"]);
        check(&["src/{a,b/c}/*.rs"], &["src/a/x.rs", "src/b/c/x.rs"], &["src/b/x.rs"]);
        check(&["[ab]/x?"], &["a/x1", "b/x2"], &["c/x1", "a/x", "a/x/y"]);
        check(&["a\\*b"], &["a*b"], &["aab"]);
        let bytes = patterns(&["*/x"]);
        assert!(bytes.matches(b"\xff\n/x") && !bytes.matches(b"a/b/x"));
    }

    #[test]
    fn directories_that_cannot_contain_a_match_are_not_entered() {
        let check = |given: &[&str], yes: &[&str], no: &[&str]| {
            let patterns = patterns(given);
            assert!(yes.iter().all(|path| patterns.enters(path.as_bytes())), "{given:?} {yes:?}");
            assert!(!no.iter().any(|path| patterns.enters(path.as_bytes())), "{given:?} {no:?}");
        };
        check(&["*.log"], &["a.log"], &["node_modules"]);
        check(&["dist/*/a"], &["dist", "dist/x"], &["src", "dist/x/b"]);
        check(&["**/x", "!node_modules/**", "!tmp"], &["a", "a/b"], &["node_modules", "tmp"]);
    }

    #[test]
    fn a_refusal_names_the_pattern() {
        let refused = |given: &str| Patterns::parse(&[given]).unwrap_err().to_string();
        assert_eq!(refused(""), "the pattern \"\" is empty; use `.` for everything");
        assert_eq!(refused("!"), "the pattern \"!\" is empty; use `.` for everything");
        let absolute = "the pattern \"/etc/*\" is absolute; write it relative to the directory that it selects from";
        assert_eq!(refused("/etc/*"), absolute);
        assert!(refused("!/etc").contains("\"!/etc\" is absolute"));
        for parent in ["..", "../a", "a/../b", "!a/.."] {
            assert!(refused(parent).contains(&format!("\"{parent}\" contains `..`")));
        }
        for syntax in ["a[", "{a", "a}", "[z-a]"] {
            assert!(refused(syntax).contains(&format!("\"{syntax}\" is invalid: ")), "{}", refused(syntax));
        }
        assert!(refused("!a").contains("every pattern excludes (\"!a\")"));
        assert!(refused(&"a".repeat(1025)).contains("longer than 1024 bytes"));
        assert_eq!(Patterns::parse(&["a"; 257]).unwrap_err(), PatternError::Many);
        assert!(!Patterns::parse::<String>(&[]).unwrap().matches(b"a"), "no pattern matches nothing");
    }
}
