//! Makes `opencode run --format json` report tool calls that run: on its own it reports a call when it has ended. A
//! plugin of ours prints them as further lines.

use std::{io::Write as _, path::Path};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// Kind of a line about a tool call that runs.
pub const RUNNING: &str = "tool_running";

/// The output of a line is whole: OpenCode writes its own lines the same way.
const PLUGIN: &str = r#"export const KubeOpenCode = async () => ({
  event: async ({ event }) => {
    if (event.type !== "message.part.updated") return;
    const part = event.properties.part;
    if (part.type !== "tool" || part.state.status !== "running") return;
    process.stdout.write(JSON.stringify({ type: "tool_running", sessionID: part.sessionID, part }) + "\n");
  },
});
"#;

/// Writes the plugin. It is removed with the returned file.
pub fn plugin() -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("kubeopencode-").suffix(".js").tempfile()?;
    file.write_all(PLUGIN.as_bytes())?;
    Ok(file)
}

/// The configuration of OpenCode with the plugin; `None` if it is not JSON. OpenCode adds the plugins of its other
/// configuration files.
pub fn with_plugin(config: Option<&str>, plugin: &Path) -> Option<String> {
    let mut config: Value = config.map_or_else(|| Some(json!({})), |config| serde_json::from_str(config).ok())?;
    let plugins = config.as_object_mut()?.entry("plugin").or_insert_with(|| json!([]));
    plugins.as_array_mut()?.push(format!("file://{}", plugin.display()).into());
    Some(config.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_is_added_to_what_is_configured() {
        let add = |config: Option<&str>| with_plugin(config, Path::new("/tmp/p.js"));
        assert_eq!(add(None).unwrap(), r#"{"plugin":["file:///tmp/p.js"]}"#);
        let both: Value = serde_json::from_str(&add(Some(r#"{"model":"a/b","plugin":["x"]}"#)).unwrap()).unwrap();
        assert_eq!(both, json!({"model": "a/b", "plugin": ["x", "file:///tmp/p.js"]}));
        assert_eq!(add(Some("{ // comment\n}")), None);
        assert!(PLUGIN.contains(RUNNING));
    }
}
