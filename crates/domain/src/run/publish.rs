//! Where the changes of a run are published: the name of the branch, and the API of the server that gets the pull request.

use std::fmt::Write as _;

use api::run::{Publish, PublishAuthor, PullRequestProvider};

/// The branch, unless `branch` is set.
const BRANCH: &str = "agents/{{ task }}";
/// Bytes of a branch.
const MOST_BRANCH: usize = 244;
/// Begins the title of a draft on GitLab, and on Gitea.
const GITLAB_DRAFT: &str = "Draft: ";
const GITEA_DRAFT: &str = "WIP: ";
/// Characters of a title. GitHub, GitLab and Gitea take at least as many.
const MOST_TITLE: usize = 255;
/// Characters of a text. GitHub takes 65,536.
const MOST_BODY: usize = 60_000;

/// A branch that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBranch {
    /// A placeholder that does not exist, or is not closed.
    #[error("publish.branch has {0}; only {{{{ namespace }}}}, {{{{ task }}}} and {{{{ epoch }}}} are replaced")]
    Placeholder(String),
    /// Not the name of a branch.
    #[error("`{branch}` cannot be a branch: {problem}; change {field}")]
    Name {
        branch: String,
        /// What is wrong with it.
        problem: &'static str,
        field: &'static str,
    },
}

/// The branch that a run pushes to: `publish.branch` with its placeholders replaced.
pub fn branch(settings: &Publish, namespace: &str, task: &str, epoch: i64) -> Result<String, BadBranch> {
    let epoch = epoch.to_string();
    let mut branch = String::new();
    let mut rest = settings.branch.as_deref().unwrap_or(BRANCH);
    while let Some((before, after)) = rest.split_once("{{") {
        let shown = |text: &str| BadBranch::Placeholder(format!("`{{{{{}`", text.chars().take(40).collect::<String>()));
        let (name, after) = after.split_once("}}").ok_or_else(|| shown(after))?;
        branch.push_str(before);
        branch.push_str(match name.trim() {
            "namespace" => namespace,
            "task" => task,
            "epoch" => &epoch,
            _ => return Err(shown(&format!("{name}}}}}"))),
        });
        rest = after;
    }
    branch.push_str(rest);
    let named = |field, branch: &str| match branch_problem(branch) {
        Some(problem) => Err(BadBranch::Name { branch: branch.to_owned(), problem, field }),
        None => Ok(()),
    };
    named("publish.branch", &branch)?;
    if let Some(base) = &settings.base_branch {
        named("publish.baseBranch", base)?;
    }
    Ok(branch)
}

/// The branch for a run whose branch has other commits, of an earlier run: only a rerun may leave the branch that it was
/// to push to.
pub fn branch_of_rerun(branch: &str, epoch: i64) -> Option<String> {
    let other = format!("{branch}-{epoch}");
    (epoch > 1 && branch_problem(&other).is_none()).then_some(other)
}

/// Why a text cannot be the name of a branch, by the rules of `git check-ref-format --branch`; `None` if it can.
pub fn branch_problem(name: &str) -> Option<&'static str> {
    let parts = || name.split('/');
    let special = |char: char| char.is_ascii_control() || " ~^:?*[\\".contains(char);
    let rules = [
        (name.is_empty(), "it is empty"),
        (name.len() > MOST_BRANCH, "it has more than 244 bytes"),
        (name.chars().any(special), "it contains a space, a control character or one of ~ ^ : ? * [ \\"),
        (name.starts_with('-'), "it begins with `-`"),
        (name.contains(".."), "it contains `..`"),
        (name.contains("@{") || name == "@", "`@` alone and `@{` mean something else"),
        (parts().any(str::is_empty), "it begins or ends with `/`, or contains `//`"),
        (parts().any(|part| part.starts_with('.')), "a part of it begins with `.`"),
        (parts().any(|part| part.strip_suffix(".lock").is_some()), "a part of it ends with `.lock`"),
        (name.ends_with('.'), "it ends with `.`"),
        (name == "HEAD" || name.starts_with("refs/"), "`HEAD` and `refs/` mean something else"),
    ];
    rules.into_iter().find_map(|(broken, problem)| broken.then_some(problem))
}

/// Whether a run may push to the branch that its pull request is to change: only if that branch is written in the
/// settings, without placeholders.
pub fn may_push_to(branch: &str, base: &str, settings: &Publish) -> bool {
    branch != base || settings.branch.as_deref() == Some(branch)
}

/// The author of the commit with changes that the agent did not commit.
pub fn author(settings: &Publish) -> PublishAuthor {
    settings.author.clone().unwrap_or_else(|| PublishAuthor {
        name: "KubeOpenCode agent".to_owned(),
        email: "agent@kubeopencode.local".to_owned(),
    })
}

/// The software of a Git server, and where its API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forge {
    pub provider: PullRequestProvider,
    /// Base URL of the API, without a trailing slash.
    pub api: String,
    /// The repository: `owner/name`, with more parts on GitLab.
    pub project: String,
}

/// A server that cannot open a pull request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoForge {
    #[error("the address of the repository is neither http, https nor ssh")]
    Address,
    #[error("the address of the repository names no owner and repository: `{0}`")]
    Project(String),
}

impl Forge {
    /// The server of a repository. `provider` and `api` are the user's settings, and win over what the address says.
    pub fn of(repository: &str, provider: Option<PullRequestProvider>, api: Option<&str>) -> Result<Self, NoForge> {
        let address = Address::parse(repository).ok_or(NoForge::Address)?;
        let host = address.host();
        let provider = provider.unwrap_or_else(|| provider_of(&host));
        let api = api.map(|api| api.trim_end_matches('/'));
        let (prefix, project) = address.project(provider, api).ok_or_else(|| NoForge::Project(address.path.clone()))?;
        let api = api.map_or_else(|| address.api(provider, &prefix), str::to_owned);
        Ok(Self { provider, api, project })
    }

    /// The owner and the name of the repository.
    pub fn owner_and_name(&self) -> (&str, &str) {
        self.project.rsplit_once('/').unwrap_or(("", &self.project))
    }

    /// The repository in the API: `{api}/repos/{owner}/{name}`, on GitLab `{api}/projects/{escaped path}`.
    pub fn project_url(&self) -> String {
        match self.provider {
            PullRequestProvider::GitLab => format!("{}/projects/{}", self.api, escaped(&self.project)),
            PullRequestProvider::GitHub | PullRequestProvider::Gitea => {
                let (owner, name) = self.owner_and_name();
                format!("{}/repos/{}/{}", self.api, escaped(owner), escaped(name))
            }
        }
    }

    /// The title of a pull request in one line. Where a draft is no property, its title says so.
    pub fn title(&self, title: &str, draft: bool) -> String {
        let mark = match self.provider {
            PullRequestProvider::GitLab if draft => GITLAB_DRAFT,
            PullRequestProvider::Gitea if draft => GITEA_DRAFT,
            _ => "",
        };
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        let mark = if title.starts_with(mark) { "" } else { mark };
        cut(&format!("{mark}{title}"), MOST_TITLE)
    }
}

/// The text of a pull request: the user's own, or the agent's final answer and where it comes from.
pub fn body(own: Option<&str>, summary: Option<&str>, namespace: &str, task: &str, epoch: i64) -> String {
    if let Some(own) = own {
        return cut(own, MOST_BODY);
    }
    let origin = format!("Created by KubeOpenCode Task {namespace}/{task}, run {epoch}");
    match summary.map(str::trim).filter(|summary| !summary.is_empty()) {
        Some(summary) => format!("{}\n\n{origin}", cut(summary, MOST_BODY)),
        None => origin,
    }
}

/// The text as one part of a URL's path, or as a value of its query.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// The address of a repository.
#[derive(Debug)]
struct Address {
    /// `http`, `https` or `ssh`.
    scheme: String,
    /// Host, and the port if one is given.
    authority: String,
    /// Without slashes around it and without `.git`.
    path: String,
}

impl Address {
    fn parse(repository: &str) -> Option<Self> {
        let (scheme, authority, path) = if let Some((scheme, rest)) = repository.trim().split_once("://") {
            let (authority, path) = rest.split_once('/')?;
            (scheme.to_ascii_lowercase(), authority, path)
        } else {
            // `git@host:path`.
            let (authority, path) = repository.trim().split_once(':')?;
            ("ssh".to_owned(), authority, path)
        };
        if !["http", "https", "ssh"].contains(&scheme.as_str()) {
            return None;
        }
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase();
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let path = path.trim_matches('/');
        let path = unescaped(path.strip_suffix(".git").unwrap_or(path));
        let path = path.trim_matches('/').to_owned();
        (!authority.is_empty()).then_some(Self { scheme, authority, path })
    }

    /// Without the port.
    fn host(&self) -> String {
        let end = match self.authority.strip_prefix('[') {
            Some(address) => address.find(']').map(|end| end + 2),
            None => self.authority.find(':'),
        };
        self.authority[..end.unwrap_or(self.authority.len())].to_owned()
    }

    /// The directory of the server's pages on its host, and the repository.
    fn project(&self, provider: PullRequestProvider, api: Option<&str>) -> Option<(String, String)> {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        if parts.len() < 2 || parts.iter().any(|part| [".", ".."].contains(part)) {
            return None;
        }
        if provider == PullRequestProvider::GitLab {
            // Groups nest, so only the address of the API can tell a directory from a group.
            let directory = api.and_then(|api| {
                let path = api.split_once("://")?.1.split_once('/')?.1;
                path.strip_suffix("/api/v4")
            });
            let whole = parts.join("/");
            let below = directory.and_then(|directory| whole.strip_prefix(directory)?.strip_prefix('/'));
            let below = below.filter(|below| self.scheme != "ssh" && below.contains('/'));
            return Some((String::new(), below.unwrap_or(&whole).to_owned()));
        }
        let (directory, project) = parts.split_at(parts.len() - 2);
        // The path of an ssh address may be one of the file system.
        let directory = if self.scheme == "ssh" || directory.is_empty() {
            String::new()
        } else {
            format!("/{}", directory.join("/"))
        };
        Some((directory, project.join("/")))
    }

    fn api(&self, provider: PullRequestProvider, directory: &str) -> String {
        let host = self.host();
        // The port of ssh is not that of the API.
        let (scheme, authority) = match self.scheme.as_str() {
            "ssh" => ("https", host.clone()),
            scheme => (scheme, self.authority.clone()),
        };
        match (provider, host.as_str()) {
            (PullRequestProvider::GitHub, "github.com" | "www.github.com" | "ssh.github.com") => {
                "https://api.github.com".to_owned()
            }
            // GitHub Enterprise Cloud with data residency.
            (PullRequestProvider::GitHub, host) if host.ends_with(".ghe.com") => format!("https://api.{host}"),
            (PullRequestProvider::GitHub, _) => format!("{scheme}://{authority}{directory}/api/v3"),
            (PullRequestProvider::GitLab, "altssh.gitlab.com") => "https://gitlab.com/api/v4".to_owned(),
            (PullRequestProvider::GitLab, _) => format!("{scheme}://{authority}/api/v4"),
            (PullRequestProvider::Gitea, _) => format!("{scheme}://{authority}{directory}/api/v1"),
        }
    }
}

fn provider_of(host: &str) -> PullRequestProvider {
    if host.contains("github") || host.ends_with(".ghe.com") {
        PullRequestProvider::GitHub
    } else if host.contains("gitlab") {
        PullRequestProvider::GitLab
    } else {
        PullRequestProvider::Gitea
    }
}

/// The text without `%41`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(branch: Option<&str>) -> Publish {
        Publish { branch: branch.map(str::to_owned), ..Publish::default() }
    }

    #[test]
    fn placeholders_of_a_branch_are_replaced() {
        let check = |text: Option<&str>, expected: &str| {
            let branch = branch(&settings(text), "team", "fix-login", 2).map_err(|problem| problem.to_string());
            assert_eq!(branch.unwrap_or_else(|problem| problem), expected, "{text:?}");
        };
        check(None, "agents/fix-login");
        check(Some("main"), "main");
        check(Some("{{namespace}}/{{ task }}-{{  epoch }}"), "team/fix-login-2");
        let known = "only {{ namespace }}, {{ task }} and {{ epoch }} are replaced";
        check(Some("a/{{ user }}"), &format!("publish.branch has `{{{{ user }}}}`; {known}"));
        check(Some("a/{{ task"), &format!("publish.branch has `{{{{ task`; {known}"));
        check(
            Some("a b"),
            "`a b` cannot be a branch: it contains a space, a control character or one of ~ ^ : ? * [ \\; change \
             publish.branch",
        );
        let base = Publish { base_branch: Some("-x".to_owned()), ..Publish::default() };
        let problem = branch(&base, "team", "t", 1).unwrap_err().to_string();
        assert!(problem.ends_with("change publish.baseBranch"), "{problem}");
    }

    #[test]
    fn names_of_branches_follow_the_rules_of_git() {
        for good in ["main", "a/b.c", "é", "a@b", "agents/fix-1", "x}", "{x", "HEADS", "a.lockx"] {
            assert_eq!(branch_problem(good), None, "{good}");
        }
        let long = "x".repeat(245);
        for bad in [
            "",
            "-x",
            "a..b",
            "a b",
            "a\tb",
            "a\u{7f}",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[b",
            "a\\b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "@",
            "a@{b",
            "HEAD",
            "refs/heads/a",
            &long,
        ] {
            assert!(branch_problem(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn only_a_rerun_leaves_its_branch_and_only_a_written_base_is_pushed_to() {
        assert_eq!(branch_of_rerun("agents/x", 1), None);
        assert_eq!(branch_of_rerun("agents/x", 3).as_deref(), Some("agents/x-3"));
        assert_eq!(branch_of_rerun(&"x".repeat(244), 3), None);
        assert!(may_push_to("agents/x", "main", &settings(None)));
        assert!(may_push_to("main", "main", &settings(Some("main"))));
        assert!(!may_push_to("main", "main", &settings(Some("{{ task }}"))));
        assert!(!may_push_to("agents/x", "agents/x", &settings(None)));
    }

    #[test]
    fn the_api_is_derived_from_the_address() {
        let check = |repository: &str, expected: &str| {
            let forge = Forge::of(repository, None, None).unwrap_or_else(|problem| panic!("{repository}: {problem}"));
            assert_eq!(format!("{:?} {}", forge.provider, forge.project_url()), expected, "{repository}");
        };
        check("https://github.com/o/r.git", "GitHub https://api.github.com/repos/o/r");
        check("https://token@github.com/o/r/", "GitHub https://api.github.com/repos/o/r");
        check("git@github.com:o/r.git", "GitHub https://api.github.com/repos/o/r");
        check("ssh://git@ssh.github.com:443/o/r.git", "GitHub https://api.github.com/repos/o/r");
        check("https://acme.ghe.com/o/r", "GitHub https://api.acme.ghe.com/repos/o/r");
        check("https://github.example.com:8443/o/r", "GitHub https://github.example.com:8443/api/v3/repos/o/r");
        check("https://gitlab.com/g/sub/r.git", "GitLab https://gitlab.com/api/v4/projects/g%2Fsub%2Fr");
        check("git@gitlab.com:g/r.git", "GitLab https://gitlab.com/api/v4/projects/g%2Fr");
        check("ssh://git@altssh.gitlab.com:443/g/r.git", "GitLab https://gitlab.com/api/v4/projects/g%2Fr");
        check("ssh://git@gitlab.example.com:2222/g/r.git", "GitLab https://gitlab.example.com/api/v4/projects/g%2Fr");
        check("https://git.example.com/o/r.git", "Gitea https://git.example.com/api/v1/repos/o/r");
        check("http://git.example.com:3000/o/r", "Gitea http://git.example.com:3000/api/v1/repos/o/r");
        check("https://example.com/git/o/r", "Gitea https://example.com/git/api/v1/repos/o/r");
        check("ssh://git@git.example.com:2222/o/r.git", "Gitea https://git.example.com/api/v1/repos/o/r");
        check("HTTPS://Codeberg.org/O/R%20x", "Gitea https://codeberg.org/api/v1/repos/O/R%20x");
        check("http://[::1]:3000/o/r", "Gitea http://[::1]:3000/api/v1/repos/o/r");
        check("ssh://git@[::1]:22/o/r", "Gitea https://[::1]/api/v1/repos/o/r");
    }

    #[test]
    fn the_users_settings_win_over_the_address() {
        let url = |repository: &str, provider, api: &str| {
            Forge::of(repository, Some(provider), Some(api)).map(|forge| forge.project_url())
        };
        let (lab, hub) = (PullRequestProvider::GitLab, PullRequestProvider::GitHub);
        let found = url("https://h/gitlab/g/r.git", lab, "https://h/gitlab/api/v4/");
        assert_eq!(found.as_deref(), Ok("https://h/gitlab/api/v4/projects/g%2Fr"));
        let found = url("https://h/gitlab/r.git", lab, "https://h/gitlab/api/v4");
        assert_eq!(found.as_deref(), Ok("https://h/gitlab/api/v4/projects/gitlab%2Fr"));
        let found = url("git@h:g/r.git", lab, "https://h/gitlab/api/v4");
        assert_eq!(found.as_deref(), Ok("https://h/gitlab/api/v4/projects/g%2Fr"));
        let found = url("https://git.example.com/o/r", hub, "http://127.0.0.1:1");
        assert_eq!(found.as_deref(), Ok("http://127.0.0.1:1/repos/o/r"));
        for bad in ["file:///o/r", "https://h", "https://h/r.git", "https://h/o/..", "nothing"] {
            assert!(Forge::of(bad, None, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_draft_is_marked_where_it_is_no_property() {
        let title = |provider, title: &str, draft| {
            Forge { provider, api: String::new(), project: String::new() }.title(title, draft)
        };
        assert_eq!(title(PullRequestProvider::GitHub, "Fix\n it", true), "Fix it");
        assert_eq!(title(PullRequestProvider::GitLab, "Fix it", true), "Draft: Fix it");
        assert_eq!(title(PullRequestProvider::Gitea, "WIP: Fix it", true), "WIP: Fix it");
        assert_eq!(title(PullRequestProvider::Gitea, "Fix it", false), "Fix it");
        assert_eq!(title(PullRequestProvider::GitLab, &"é".repeat(300), true).chars().count(), 255);
    }

    #[test]
    fn the_text_says_where_it_comes_from_unless_the_user_wrote_it() {
        assert_eq!(body(Some("mine"), Some("x"), "n", "t", 1), "mine");
        assert_eq!(body(None, Some(" Done.\n"), "n", "t", 2), "Done.\n\nCreated by KubeOpenCode Task n/t, run 2");
        assert_eq!(body(None, Some(" "), "n", "t", 2), "Created by KubeOpenCode Task n/t, run 2");
        assert!(body(None, Some(&"é".repeat(70_000)), "n", "t", 2).chars().count() < 65_000);
    }
}
