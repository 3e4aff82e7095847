import type { Kind } from "./kinds";

/** Query keys. Keys of a kind start with its name, so that one change can invalidate all of them. */
export const keys = {
  whoami: ["whoami"] as const,
  info: ["info"] as const,
  namespaces: ["namespaces"] as const,
  list: (kind: Kind, namespace: string, query: object, offset: number) =>
    [kind.kind, "list", namespace, query, offset] as const,
  lists: (kind: string) => [kind, "list"] as const,
  choices: (kind: Kind, namespace: string) => [kind.kind, "choices", namespace] as const,
  detail: (kind: string, namespace: string, name: string) => [kind, "detail", namespace, name] as const,
  /** The last change that the event stream reported for an object. */
  lastChange: (kind: string, namespace: string, name: string) => [kind, "lastChange", namespace, name] as const,
  yaml: (kind: string, namespace: string, name: string) => [kind, "yaml", namespace, name] as const,
  explain: (kind: string, namespace: string, name: string) => [kind, "explain", namespace, name] as const,
  messages: (namespace: string, name: string) => ["Task", "messages", namespace, name] as const,
  changes: (namespace: string, name: string, run: number | undefined) =>
    ["Task", "changes", namespace, name, run ?? 0] as const,
  artifacts: (namespace: string, name: string) => ["Task", "artifacts", namespace, name] as const,
  artifactFile: (digest: string) => ["artifactFile", digest] as const,
  outputs: (namespace: string, name: string, run: number | undefined) =>
    ["Task", "outputs", namespace, name, run ?? 0] as const,
  permissions: (namespace: string, name: string) => ["Task", "permissions", namespace, name] as const,
  approvals: (namespace: string, name: string) => ["Task", "approvals", namespace, name] as const,
  logSearch: (namespace: string, name: string, container: string, text: string) =>
    ["Task", "logSearch", namespace, name, container, text] as const,
  runs: (namespace: string, name: string) => ["Task", "runs", namespace, name] as const,
  containers: (namespace: string, name: string) => ["Task", "containers", namespace, name] as const,
  history: (namespace: string, name: string) => ["Task", "history", namespace, name] as const,
  upcoming: (namespace: string, name: string, zone: string) => ["CronTask", "upcoming", namespace, name, zone] as const,
  preview: (schedule: string, zone: string) => ["preview", schedule, zone] as const,
  share: (namespace: string, name: string) => ["Agent", "share", namespace, name] as const,
  search: (text: string) => ["search", text] as const,
  summary: (namespace: string, buckets: string) => ["summary", namespace, buckets] as const,
  graph: (namespace: string) => ["graph", namespace] as const,
  config: ["KubeOpenCodeConfig", "detail"] as const,
  configYaml: ["KubeOpenCodeConfig", "yaml"] as const,
  rights: (namespace: string) => ["rights", namespace] as const,
  secrets: (namespace: string) => ["Secret", namespace] as const,
  secret: (namespace: string, name: string) => ["Secret", namespace, name] as const,
  maySetUp: (namespace: string) => ["maySetUp", namespace] as const,
};
