/** Names of objects that exist on the server under test; the mock's unless told otherwise. */
export const NAMES = {
  namespace: process.env.E2E_NAMESPACE ?? "shop",
  agent: process.env.E2E_AGENT ?? "web-dev",
  template: process.env.E2E_TEMPLATE ?? "node",
  cronTask: process.env.E2E_CRONTASK ?? "weekday-triage",
  finishedTask: process.env.E2E_FINISHED_TASK ?? "fix-login-timeout-0240",
  runningTask: process.env.E2E_RUNNING_TASK ?? "fix-login-timeout",
  waitingTask: process.env.E2E_WAITING_TASK ?? "speed-up-search",
  askingTask: process.env.E2E_ASKING_TASK ?? "upgrade-postgres-driver",
  registryNamespace: process.env.E2E_REGISTRY_NAMESPACE ?? "platform",
  registry: process.env.E2E_REGISTRY ?? "team-catalogue",
  model: process.env.E2E_MODEL ?? "sonnet",
};

/** A name that no other test and no other run uses. */
export function freshName(prefix: string): string {
  return `${prefix}-${Date.now().toString(36)}`;
}
