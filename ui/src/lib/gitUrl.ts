const SCHEMES = ["https://", "http://", "ssh://"];
const STARTS = [...SCHEMES, "git@"];
const USE = "Use https://host/path, ssh://git@host/path or git@host:path.";

/** What is wrong with the URL of a Git repository; `undefined` while it is empty, valid, or still being typed. */
export function gitUrlProblem(text: string): string | undefined {
  const url = text.trim();
  if (url === "" || STARTS.some((start) => start.startsWith(url.toLowerCase()))) return undefined;
  if (/\s/.test(url)) return "The URL contains a space.";
  const scheme = SCHEMES.find((start) => url.toLowerCase().startsWith(start));
  if (scheme) return rest(url.slice(scheme.length), scheme);
  const other = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1];
  if (other) return `${other}:// is not supported. ${USE}`;
  if (/^[^/@:]+@[^/@:]+$/.test(url)) return `The path is missing: ${url}:team/project`;
  const [, host, path] = /^[^/@:]+@([^/:]+):(.*)$/.exec(url) ?? [];
  if (host !== undefined) return path === "" ? `The path is missing: ${url}team/project` : hostProblem(host);
  if (url.startsWith("/") || url.startsWith(".")) return `A path of this machine is not reachable. ${USE}`;
  if (/^[a-z0-9.-]+\.[a-z]{2,}(:\d+)?\/./i.test(url)) return `The scheme is missing: https://${url}`;
  return `Not the URL of a repository. ${USE}`;
}

/** Checks the part after the scheme: `user@host:port/path`. */
function rest(text: string, scheme: string): string | undefined {
  const [authority = "", ...path] = text.split("/");
  if (scheme !== "ssh://" && authority.includes("@")) {
    return "The URL contains a user or password. Use a credentials Secret.";
  }
  const host = authority.slice(authority.lastIndexOf("@") + 1);
  if (host === "") return "The host is missing.";
  return hostProblem(host) ?? (path.join("") === "" ? "The path of the repository is missing." : undefined);
}

function hostProblem(host: string): string | undefined {
  return /^(\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9._-]*[a-z0-9])?)(:\d+)?$/i.test(host)
    ? undefined
    : `${host} is not a valid host.`;
}
