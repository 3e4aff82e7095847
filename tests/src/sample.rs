//! Texts that fit a pattern, and texts that do not.

/// How to write a text for one pattern.
struct Sample {
    pattern: &'static str,
    /// A text of any length has this beginning …
    start: &'static str,
    /// … this repeated, in whole …
    middle: &'static str,
    /// … and this end.
    end: &'static str,
    /// Other matching texts, as users write them.
    good: &'static [&'static str],
    /// Texts that do not match, as users write them by mistake.
    bad: &'static [&'static str],
}

/// Pattern of text fields that have none.
const ANY_TEXT: &str = r"^[^\x00]*$";

/// Points in time that fit the format date-time.
pub const GOOD_TIMES: &[&str] =
    &["2026-12-31T23:59:59Z", "2026-12-31T23:59:59.123456Z", "2026-12-31T23:59:59+02:00", "2024-02-29T00:00:00Z"];
/// Texts that are no point in time.
pub const BAD_TIMES: &[&str] = &["", "tomorrow", "2026-12-31", "2026-13-01T00:00:00Z", "1767225599"];

const SAMPLES: &[Sample] = &[
    Sample {
        pattern: ANY_TEXT, start: "", middle: "x", end: "", good: &["zwölf\nBoxer", "日本語"], bad: &["a\0b"]
    },
    Sample {
        pattern: r"^([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$",
        start: "",
        middle: "1s",
        end: "",
        good: &["90s", "0s", "1h30m", "1.5h", "250ms", "10µs", "999999999h"],
        bad: &["", "90", "-5m", "1d", "5 m", "1h-5m", "1e3s", "5m\n"],
    },
    Sample {
        pattern: r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        start: "",
        middle: "x",
        end: "",
        good: &["0a", "a", "a-b"],
        bad: &["A", "-a", "a-", "a_b", "a.b", "a\n"],
    },
    Sample {
        pattern: r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
        start: "",
        middle: "x",
        end: "",
        good: &["Review", "release-notes", "v1.2_a"],
        bad: &[".hidden", "a/b", "../a", "a-"],
    },
    Sample {
        pattern: r"^[A-Za-z][A-Za-z0-9_-]*$",
        start: "",
        middle: "x",
        end: "",
        good: &["version", "Version_2", "a-b"],
        bad: &["2nd", "a.b", "a b", "-a"],
    },
    Sample {
        pattern: r"^https?://[^\x00\s]+$",
        start: "https://",
        middle: "x",
        end: "",
        good: &["http://a", "https://user@host:8443/path?q=1#f"],
        bad: &["a", "ftp://a", "https://", "https://a b", "https://a\0", "HTTPS://a"],
    },
    Sample {
        pattern: r"^https?://.+$",
        start: "https://",
        middle: "x",
        end: "",
        good: &["http://collector:4318"],
        bad: &["collector:4318", "http://"],
    },
    Sample {
        pattern: r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$",
        start: "registry.example.com/",
        middle: "x",
        end: "",
        good: &["localhost:5000", "registry.example.com/agents/built"],
        bad: &["https://registry.example.com", "registry.example.com/Agents", "registry.example.com/"],
    },
    Sample {
        pattern: r"^/[^\x00]*$",
        start: "/",
        middle: "x",
        end: "",
        good: &["/", "/work space"],
        bad: &["workspace", "./a", "/a\0"],
    },
    Sample {
        pattern: r"^/[^\x00\s]*$",
        start: "/",
        middle: "x",
        end: "",
        good: &["/", "/openapi.json?v=1"],
        bad: &["mcp", "/a b", "/a\0"],
    },
    Sample {
        pattern: r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?|m|k)?$",
        start: "",
        middle: "1",
        end: "",
        good: &["20Gi", "1.5Ti", "500M", "1000000"],
        bad: &["", "20GB", "-1Gi", "Gi", "20 Gi"],
    },
    Sample {
        pattern: r"^[0-9]+(\.[0-9]{1,6})?$",
        start: "",
        middle: "1",
        end: "",
        good: &["0", "2.50", "0.000001"],
        bad: &["", "-1", "1.", ".5", "1,50", "$2", "1e3", "0.0000001"],
    },
    Sample {
        pattern: r"^[0-9a-fA-F.:]+(/[0-9]{1,3})?$",
        start: "",
        middle: "1",
        end: "",
        good: &["10.0.0.0/8", "192.168.1.1", "2001:db8::/32"],
        bad: &["", "localhost", "10.0.0.0/", "10.0.0.0/1234"],
    },
    Sample {
        pattern: r"^[0-9a-fA-F.:]+/[0-9]{1,3}$",
        start: "",
        middle: "1",
        end: "/8",
        good: &["10.0.0.0/8", "2001:db8::/32"],
        bad: &["", "10.0.0.1", "any", "10.0.0.0/"],
    },
    Sample {
        pattern: r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        start: "",
        middle: "x",
        end: "",
        good: &["Authorization", "X-API-Key", "!#$%&'*+.^_`|~"],
        bad: &["", "A B", "A:", "Ä", "A\r\nB"],
    },
    Sample {
        pattern: r"^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[^\s@\x00]+(\s+[^\s\x00]+){4})$",
        start: "* * * * ",
        middle: "1",
        end: "",
        good: &["0 3 * * 1-5", "*/15 * * * *", "0 0 1 jan mon", "@daily"],
        bad: &["", "* * * *", "* * * * * *", "@reboot", "@every 5m", "daily"],
    },
    Sample {
        pattern: r"^[A-Za-z0-9_+/-]+$",
        start: "",
        middle: "x",
        end: "",
        good: &["UTC", "Europe/Berlin", "Etc/GMT+2", "America/Argentina/Buenos_Aires"],
        bad: &["", "Europe/Berlin ", "CET\0", "UTC;"],
    },
    Sample {
        pattern: r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        start: "",
        middle: "x",
        end: "",
        good: &["cluster.local", "k8s", "a-b.c-d"],
        bad: &["", ".local", "cluster.", "a..b", "Cluster.local"],
    },
];

/// The longest text of at most `length` characters that fits `pattern`, if there is one.
pub fn of_length(pattern: Option<&str>, length: usize) -> anyhow::Result<Option<String>> {
    let sample = find(pattern)?;
    let fixed = sample.start.chars().count() + sample.end.chars().count();
    let repeats = length.checked_sub(fixed).map_or(0, |room| room / sample.middle.len());
    Ok((repeats > 0).then(|| sample.repeated(repeats)))
}

/// The shortest text of more than `length` characters that fits `pattern`.
pub fn longer_than(pattern: Option<&str>, length: usize) -> anyhow::Result<String> {
    let sample = find(pattern)?;
    let fixed = sample.start.chars().count() + sample.end.chars().count();
    let repeats = length.checked_sub(fixed).map_or(0, |room| room / sample.middle.len());
    Ok(sample.repeated(repeats + 1))
}

/// Texts that fit `pattern`.
pub fn good(pattern: &str) -> anyhow::Result<&'static [&'static str]> {
    Ok(find(Some(pattern))?.good)
}

/// Texts that do not fit `pattern`.
pub fn bad(pattern: &str) -> anyhow::Result<&'static [&'static str]> {
    Ok(find(Some(pattern))?.bad)
}

impl Sample {
    fn repeated(&self, times: usize) -> String {
        format!("{}{}{}", self.start, self.middle.repeat(times), self.end)
    }
}

fn find(pattern: Option<&str>) -> anyhow::Result<&'static Sample> {
    let pattern = pattern.unwrap_or(ANY_TEXT);
    let found = SAMPLES.iter().find(|sample| sample.pattern == pattern);
    found.ok_or_else(|| anyhow::anyhow!("tests/src/sample.rs has no texts for the pattern {pattern}: add some"))
}
