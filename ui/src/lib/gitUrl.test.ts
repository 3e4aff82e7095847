import { expect, test } from "vitest";
import { gitUrlProblem } from "./gitUrl";

test.each([
  "",
  "ht",
  "https://",
  "git@",
  "https://github.com/team/project",
  "https://github.com/team/project.git",
  "http://127.0.0.1:9/skills.git",
  "https://[2001:db8::1]:8443/a",
  "ssh://git@github.com/team/project",
  "ssh://github.com:22/team/project",
  "git@github.com:team/project.git",
  " https://github.com/team/project ",
])("%j is accepted or still being typed", (url) => expect(gitUrlProblem(url)).toBeUndefined());

test.each([
  ["github.com/team/project", "The scheme is missing: https://github.com/team/project"],
  ["ftp://github.com/team", "ftp:// is not supported."],
  ["file:///tmp/repo", "file:// is not supported."],
  ["/tmp/repo", "A path of this machine is not reachable."],
  ["https:///team", "The host is missing."],
  ["https://github.com", "The path of the repository is missing."],
  ["https://github.com/", "The path of the repository is missing."],
  ["https://git hub.com/a", "The URL contains a space."],
  ["https://me:key@github.com/a", "The URL contains a user or password. Use a credentials Secret."],
  ["https://-x/a", "-x is not a valid host."],
  ["git@github.com", "The path is missing: git@github.com:team/project"],
  ["git@github.com:", "The path is missing: git@github.com:team/project"],
  ["nonsense", "Not the URL of a repository."],
])("%j is refused: %s", (url, problem) => expect(gitUrlProblem(url)).toContain(problem));
