//! Texts that can be pasted into a shell.

use std::path::Path;

/// A path, quoted for a shell if necessary.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        assert_eq!(quoted(Path::new("/home/me/.kubeopencode/kubeconfig")), "/home/me/.kubeopencode/kubeconfig");
        assert_eq!(quoted(Path::new("/home/o'neil a/x")), r"'/home/o'\''neil a/x'");
    }
}
