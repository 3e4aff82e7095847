import type { IncomingMessage, ServerResponse } from "node:http";
import { stringify } from "yaml";
import type { Agent, CronTask, Identified, PermissionAnswer, Task } from "../src/api/types";
import { blockedBy } from "../src/pages/crontasks/cronStatus";
import { upcoming } from "./cron";
import { explainAgent, explainTask } from "./explain";
import { createObject, kindOf, listOf, missing, readManifest, replaceObject, searched, yamlOf } from "./objects";
import { ApiFailure, json, text } from "./responses";
import { answerArtifacts, answerChanges } from "./results";
import { setAgentRunning, simulateRun } from "./simulation";
import type { Store } from "./store";
import { logText, searchLog, streamChanges, streamLog } from "./streams";
import { graphOf, summaryOf } from "./summary";

export const TOKEN = "let-me-in";
const CSRF = "csrf-of-the-mock";

export interface Options {
  /** Whether a token is required. */
  closed: boolean;
}

interface Call {
  store: Store;
  request: IncomingMessage;
  response: ServerResponse;
  query: URLSearchParams;
  body: string;
  options: Options;
}

function me(readOnly: boolean) {
  return {
    user: "ada@example.com",
    groups: ["developers"],
    anonymous: false,
    readOnly,
    via: "session",
    csrfToken: CSRF,
  };
}

function isSignedIn({ request, options }: Call): boolean {
  return !options.closed || (request.headers.cookie ?? "").includes("kubeopencode-session=");
}

/** Answers a request under /api/v1. Throws an `ApiFailure` for unsupported requests. */
export function answer(call: Call, path: string[]): void {
  const { request, response, store, query, body } = call;
  const method = request.method ?? "GET";
  const [first = "", second = "", third = "", fourth, fifth] = path;
  if (first === "info")
    return json(response, 200, { version: "0.2.0", authentication: { anonymous: false }, features: ["events"] });
  if (first === "login" && method === "POST") {
    const { token } = JSON.parse(body) as { token?: string };
    if (token !== TOKEN)
      throw new ApiFailure(401, "Unauthorized", "The cluster does not know this token, or it has expired");
    return json(response, 200, me(false), {
      "Set-Cookie": "kubeopencode-session=mock; HttpOnly; SameSite=Strict; Path=/",
    });
  }
  if (!isSignedIn(call)) throw new ApiFailure(401, "Unauthorized", "Sign in first");
  if (method !== "GET" && request.headers["x-kubeopencode-csrf"] !== CSRF) {
    throw new ApiFailure(403, "Forbidden", "The request does not come from the page");
  }
  switch (first) {
    case "whoami":
      return json(response, 200, me(false));
    case "logout":
      return json(response, 204, undefined, { "Set-Cookie": "kubeopencode-session=; Max-Age=0; Path=/" });
    case "rights": {
      const { checks } = JSON.parse(body) as { checks: unknown[] };
      return json(response, 200, { allowed: checks.map(() => true) });
    }
    case "summary":
      return json(
        response,
        200,
        summaryOf(store, query.get("namespace") ?? "", query.get("buckets") === "day" ? "day" : "hour"),
      );
    case "search":
      return json(response, 200, { results: searched(store, query.get("text") ?? "") });
    case "graph":
      return json(response, 200, graphOf(store, query.get("namespace") ?? ""));
    case "events":
      return streamChanges(
        store,
        response,
        query.get("lastEventId") ?? undefined,
        (query.get("kinds") ?? "").split(",").filter(Boolean),
      );
    case "upcoming":
      return answerUpcoming(response, query.get("schedule") ?? "", query);
    case "config":
      return answerConfig(call, method);
    case "namespaces":
      if (second === "") return json(response, 200, { namespaces: ["default", "platform", "shop"] });
      if (third === "setup") return answerSetup(call, fourth);
      if (third === "secrets") return answerSecrets(call, method, second, fourth);
      if (fourth === undefined) return answerKind(call, method, second, third);
      return answerObject(call, method, second, third, fourth, fifth, path.slice(5));
    default:
      return json(response, 200, listOf(store, first, undefined, query));
  }
}

function answerUpcoming(response: ServerResponse, schedule: string, query: URLSearchParams, extra: object = {}): void {
  const timeZone = query.get("timeZone") ?? "UTC";
  const times = upcoming(schedule, timeZone, Number(query.get("count") ?? 10));
  if (!times)
    throw new ApiFailure(422, "Invalid", `'${schedule}' is no cron expression of five fields`, [
      { field: "schedule", message: "is no cron expression" },
    ]);
  json(response, 200, { schedule, timeZone, suspended: false, times, ...extra });
}

/** Two Secrets, whatever is written. */
function answerSecrets({ response }: Call, method: string, namespace: string, name: string | undefined): void {
  const createdAt = new Date(Date.now() - 86_400_000).toISOString();
  const items = [
    { name: "anthropic-key", namespace, type: "Opaque", keys: ["api-key"], createdAt },
    { name: "github", namespace, type: "Opaque", keys: ["token", "webhook-secret"], createdAt },
  ];
  if (name === undefined && method === "GET") return json(response, 200, { items, total: items.length });
  if (method === "DELETE") return json(response, 204, undefined);
  json(response, method === "POST" ? 201 : 200, items.find((secret) => secret.name === name) ?? items[0]);
}

function answerSetup({ response, body }: Call, action: string | undefined): void {
  const { provider, key, name = provider } = JSON.parse(body) as { provider: string; key?: string; name?: string };
  if (action === "test") {
    const works = key !== "wrong";
    return json(response, 200, {
      works,
      message: works ? "Connected: 3 models." : "Anthropic does not accept the key (status 401): invalid x-api-key",
      models: works ? ["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"] : [],
      suggestedModel: works ? "claude-sonnet-4-5" : undefined,
    });
  }
  const objects = [
    { kind: "Secret", name: `${name}-key` },
    { kind: "ModelProvider", name },
    { kind: "Model", name: `${name}-claude-sonnet-4-5` },
    { kind: "AgentTemplate", name },
  ];
  json(response, 200, { objects, template: name });
}

function answerConfig({ store, response, query, body, request }: Call, method: string): void {
  const { config } = store;
  if (!config) throw new ApiFailure(404, "NotFound", "There is no KubeOpenCodeConfig");
  if (method === "PUT") {
    const { spec = {} } = readManifest(body, request.headers["content-type"] ?? "");
    if (!query.has("dryRun")) config.spec = spec;
  } else if (query.get("output") === "yaml") {
    return text(
      response,
      "application/yaml",
      stringify({
        apiVersion: "kubeopencode.io/v1alpha1",
        kind: "KubeOpenCodeConfig",
        metadata: { name: "cluster", resourceVersion: config.view.resourceVersion },
        spec: config.spec,
      }),
    );
  }
  json(response, 200, { ...config.view, ...config.spec });
}

function answerKind(
  { store, response, query, body, request }: Call,
  method: string,
  namespace: string,
  plural: string,
): void {
  if (method === "GET") return json(response, 200, listOf(store, plural, namespace, query));
  const dryRun = query.get("dryRun") === "true";
  const created = createObject(
    store,
    plural,
    namespace,
    readManifest(body, request.headers["content-type"] ?? ""),
    dryRun,
  );
  if (!dryRun && plural === "tasks") simulateRun(store, namespace, created.name);
  json(response, 201, created);
}

function answerObject(
  call: Call,
  method: string,
  namespace: string,
  plural: string,
  name: string,
  action?: string,
  rest: string[] = [],
): void {
  const { store, response, query, body, request } = call;
  const { kind } = kindOf(plural);
  const object = store.get<Identified>(kind, namespace, name);
  if (!object) throw missing(plural, namespace, name);
  if (action === undefined) {
    if (method === "GET") {
      return query.get("output") === "yaml"
        ? text(response, "application/yaml", yamlOf(store, plural, namespace, name))
        : json(response, 200, object);
    }
    if (method === "DELETE") {
      store.remove(kind, namespace, name);
      return json(response, 204, undefined);
    }
    const manifest = readManifest(body, request.headers["content-type"] ?? "");
    return json(response, 200, replaceObject(store, plural, namespace, name, manifest, query.get("dryRun") === "true"));
  }
  if (plural === "tasks") return taskAction(call, object as Task, action, rest);
  if (plural === "agents") return agentAction(call, method, object as Agent, action);
  if (plural === "crontasks") return cronAction(call, object as CronTask, action);
  throw new ApiFailure(404, "NotFound", `There is no action '${action}'`);
}

function taskAction(
  { store, response, query, request, body }: Call,
  task: Task,
  action: string,
  [rest, ...further]: string[],
): void {
  const { namespace, name } = task;
  const key = `${namespace}/${name}`;
  switch (action) {
    case "stop": {
      if (task.completionTime) throw new ApiFailure(409, "Conflict", "It has finished already");
      const waiting = task.phase === "Queued";
      const part: Partial<Task> =
        waiting || !name.startsWith("task-")
          ? {
              phase: "Completed",
              reason: "UserStopped",
              message: "Its user stopped it",
              completionTime: new Date().toISOString(),
            }
          : {};
      return json(response, 200, store.patch<Task>("Task", namespace, name, { stopRequested: true, ...part }));
    }
    case "rerun": {
      const again = store.patch<Task>("Task", namespace, name, {
        phase: "Queued",
        reason: "AgentAtCapacity",
        message: "It waits for a free slot",
        completionTime: undefined,
        startTime: undefined,
        stopRequested: undefined,
        timings: { queuedAt: new Date().toISOString() },
      });
      simulateRun(store, namespace, name);
      return json(response, 202, again);
    }
    case "explain":
      return json(response, 200, explainTask(store, task));
    case "logs":
      if (rest === "containers")
        return json(response, 200, {
          containers: [
            { name: "agent", init: false, state: "running" },
            { name: "context-init", init: true, state: "terminated", exitCode: 0 },
          ],
        });
      if (rest === "search") return json(response, 200, searchLog(store, task, query.get("q") ?? ""));
      if (query.get("format") === "text") return logText(store, response, task, query.get("container") ?? "agent");
      return streamLog(store, response, task, query.get("lastEventId") ?? undefined);
    case "session": {
      const messages = store.messages.get(key);
      if (!messages) throw new ApiFailure(404, "NotFound", "There is no session");
      return json(response, 200, rest === "messages" ? messages : { id: task.session?.id, title: task.session?.title });
    }
    case "artifacts":
      return answerArtifacts(response, task, rest === undefined ? [] : [rest, ...further], query);
    case "changes":
      return answerChanges(response, task, rest);
    case "outputs":
      return json(response, 200, { epoch: task.runEpoch ?? 1, outputs: task.result?.outputs ?? {} });
    case "approvals":
      return json(response, 200, { recorded: true, approvals: store.approvals.get(key) ?? [] });
    case "permissions":
      if (request.method === "POST") {
        const { reply, message } = JSON.parse(body) as Pick<PermissionAnswer, "reply" | "message">;
        const answers = (store.permissions.get(key) ?? []).map(({ id, permission, patterns }) => ({
          ...{ epoch: task.runEpoch ?? 1, request: id, permission, patterns, reply, message },
          ...{ by: "ada", via: "Page" as const, at: new Date().toISOString(), accepted: true },
        }));
        store.approvals.set(key, [...answers, ...(store.approvals.get(key) ?? [])]);
        store.permissions.set(key, []);
        store.patch<Task>("Task", namespace, name, { awaitingApproval: undefined });
        return json(response, 204, undefined);
      }
      return json(response, 200, { permissions: store.permissions.get(key) ?? [] });
    default:
      throw new ApiFailure(404, "NotFound", `There is no action '${action}'`);
  }
}

function agentAction({ store, response, body }: Call, method: string, agent: Agent, action: string): void {
  const key = `${agent.namespace}/${agent.name}`;
  switch (action) {
    case "suspend":
      if (agent.slots?.used)
        throw new ApiFailure(
          409,
          "Conflict",
          `Agent '${agent.name}' works on ${agent.slots.used} Tasks: stop them first`,
        );
      return json(response, 200, setAgentRunning(store, agent, false));
    case "resume":
      return json(response, 200, setAgentRunning(store, agent, true));
    case "explain":
      return json(response, 200, explainAgent(store, agent));
    case "share": {
      if (method === "DELETE") {
        store.shares.delete(key);
        return json(response, 204, undefined);
      }
      if (method === "POST") {
        const { expiresIn, allowedIPs } = JSON.parse(body) as { expiresIn?: string; allowedIPs?: string[] };
        store.shares.set(key, {
          token: `share-${agent.name}`,
          expiresAt: expiresIn ? new Date(Date.now() + 86_400_000).toISOString() : undefined,
          allowedIPs,
        });
      }
      const share = store.shares.get(key);
      return json(
        response,
        200,
        share ? { enabled: true, active: true, path: `/s/${share.token}`, ...share } : { enabled: false },
      );
    }
    default:
      throw new ApiFailure(404, "NotFound", `There is no action '${action}'`);
  }
}

function cronAction(call: Call, cron: CronTask, action: string): void {
  const { store, response, query } = call;
  const { namespace, name } = cron;
  switch (action) {
    case "suspend":
    case "resume":
      return json(response, 200, store.patch<CronTask>("CronTask", namespace, name, { suspend: action === "suspend" }));
    case "trigger": {
      const blocked = blockedBy(cron);
      if (blocked) throw new ApiFailure(409, "Conflict", `CronTask '${name}' is blocked: ${blocked.message}`);
      const task = createObject(
        store,
        "tasks",
        namespace,
        { metadata: { name: `${name}-${Math.floor(Date.now() / 1000)}` }, spec: { ...cron.taskTemplate } },
        false,
      );
      store.patch<Task>("Task", namespace, task.name, { cronTask: name });
      simulateRun(store, namespace, task.name);
      return json(response, 200, { message: `Task '${task.name}' was created` });
    }
    case "history":
      query.set("crontask", name);
      return json(response, 200, listOf(store, "tasks", namespace, query));
    case "upcoming":
      return answerUpcoming(response, cron.schedule, query, { suspended: cron.suspend ?? false });
    default:
      throw new ApiFailure(404, "NotFound", `There is no action '${action}'`);
  }
}
