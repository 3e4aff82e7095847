import type { Agent, AgentTemplate, CronTask, GenericObject, Registry, SessionMessage, Task } from "../src/api/types";
import { LEFT } from "./results";
import { Store } from "./store";

/** Common fields of all Git repositories. */
const WHOLE = { depth: 1, recurseSubmodules: false };

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A deterministic pseudo-random generator. */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

const WORK = [
  [
    "fix-login-timeout",
    "The login test times out on slow machines. Find out why and fix it. Run the whole suite before you finish.",
  ],
  ["upgrade-postgres-driver", "Upgrade the PostgreSQL driver to the newest version and fix what breaks."],
  ["write-changelog", "Write the changelog of release 2.4 from the commits since 2.3."],
  ["review-payment-api", "Review the payment API for missing input checks. Report, do not change."],
  ["remove-dead-code", "Remove code that nothing reaches in services/orders."],
  ["translate-mails", "Translate the order mails to French and Dutch."],
  ["speed-up-search", "The product search takes 800 ms. Profile it and bring it below 200 ms."],
  ["add-health-checks", "Add health checks to every service that has none."],
  ["flaky-cart-test", "cart_total_is_rounded fails about once in twenty runs. Make it reliable."],
  ["document-api", "Document every public endpoint of the catalogue service."],
] as const;

const ESC = "\u001b[";
export const LOG = [
  `[session] ses_7f3a on http://web-dev.shop.svc:4096`,
  `${ESC}36m[tool]${ESC}0m read tests/login.spec.ts`,
  `${ESC}36m[tool]${ESC}0m grep "waitFor" in src/`,
  `${ESC}33m! 3 places wait a fixed time${ESC}0m`,
  `${ESC}36m[tool]${ESC}0m bash npm test -- login`,
  "> shop@2.4.0 test",
  "> vitest run login",
  "",
  ` ${ESC}31m✗${ESC}0m login > redirects after sign-in ${ESC}31m5003ms${ESC}0m`,
  `   ${ESC}31mError: timeout of 5000ms exceeded${ESC}0m`,
  "       at tests/login.spec.ts:41:12",
  ` ${ESC}32m✓${ESC}0m login > refuses a wrong password ${ESC}2m12ms${ESC}0m`,
  `${ESC}36m[tool]${ESC}0m edit tests/login.spec.ts ${ESC}32m+6${ESC}0m ${ESC}31m-4${ESC}0m`,
  `${ESC}36m[tool]${ESC}0m bash npm test`,
  ` ${ESC}32m✓${ESC}0m 212 tests passed ${ESC}2m(18.4 s)${ESC}0m`,
  "The test waited a fixed 5 s for a redirect that depends on the machine. It now waits for the redirect itself.",
  "[end] Succeeded: the agent finished (4 answers, 8330 + 1140 tokens, $0.0325, 1 files changed)",
];

const DIFF = `--- a/tests/login.spec.ts
+++ b/tests/login.spec.ts
@@ -38,7 +38,9 @@ test("redirects after sign-in", async () => {
   await page.fill("#user", "ada");
   await page.fill("#password", "secret");
   await page.click("button[type=submit]");
-  await sleep(5000);
-  expect(page.url()).toContain("/home");
+  // The redirect is what we wait for, however long the machine takes.
+  await page.waitForURL("**/home");
+  await expect(page.locator("h1")).toHaveText("Welcome, Ada");
 });
`;

export function transcript(start: number): SessionMessage[] {
  const at = (minutes: number) => ({ created: start + minutes * MINUTE, completed: start + minutes * MINUTE + 20_000 });
  const agent = { role: "assistant" as const, modelID: "claude-sonnet-4-5", providerID: "anthropic", finish: "stop" };
  return [
    { info: { id: "m1", role: "user", time: at(0) }, parts: [{ type: "text", text: WORK[0][1] }] },
    {
      info: { ...agent, id: "m2", time: at(1), cost: 0.0121, tokens: { input: 3120, output: 410 } },
      parts: [
        {
          type: "reasoning",
          text: "A fixed sleep is the usual suspect. I look at the test first, then at who else waits.",
        },
        { type: "text", text: "I will look at the failing test and at every place that waits." },
        {
          type: "tool",
          tool: "read",
          state: {
            status: "completed",
            input: { filePath: "tests/login.spec.ts" },
            output: "export const timeout = 5000;\n…",
          },
        },
        {
          type: "tool",
          tool: "bash",
          state: {
            status: "error",
            input: { command: "npm test -- login" },
            error:
              "✗ login > redirects after sign-in 5003ms\n  Error: timeout of 5000ms exceeded\n    at tests/login.spec.ts:41:12",
          },
        },
      ],
    },
    {
      info: { ...agent, id: "m3", time: at(3), cost: 0.0204, tokens: { input: 5210, output: 730, reasoning: 120 } },
      parts: [
        { type: "text", text: "The test sleeps five seconds and hopes. I let it wait for the redirect itself." },
        {
          type: "tool",
          tool: "edit",
          state: {
            status: "completed",
            title: "tests/login.spec.ts",
            input: { filePath: "tests/login.spec.ts" },
            metadata: { diff: DIFF },
          },
        },
        {
          type: "tool",
          tool: "bash",
          state: { status: "completed", input: { command: "npm test" }, output: "✓ 212 tests passed (18.4 s)" },
        },
        { type: "text", text: "All 212 tests pass. The test no longer depends on how fast the machine is." },
      ],
    },
  ];
}

function condition(type: string, status: "True" | "False", reason: string, message: string, ago = HOUR) {
  return { type, status, reason, message, lastTransitionTime: new Date(Date.now() - ago).toISOString() };
}

function agents(store: Store): void {
  const now = Date.now();
  const make = (name: string, namespace: string, part: Partial<Agent>) =>
    store.put(
      "Agent",
      {
        name,
        namespace,
        createdAt: new Date(now - 9 * 24 * HOUR).toISOString(),
        labels: { team: namespace },
        phase: "Running",
        workspaceDir: "/workspace",
        serviceAccountName: "agent",
        executorImage: "quay.io/kubeopencode/executor-node:22",
        slots: { used: 0, total: 2 },
        queueLength: 0,
        resolvedModel: "anthropic/claude-sonnet-4-5",
        modelRef: { name: "sonnet" },
        serverStatus: {
          deploymentName: `${name}-server`,
          serviceName: name,
          url: `http://${name}.${namespace}.svc.cluster.local:4096`,
          ready: true,
          port: 4096,
        },
        conditions: [
          condition("ServerReady", "True", "DeploymentReady", "One Pod of one is ready", 3 * HOUR),
          condition("ServerHealthy", "True", "DeploymentHealthy", "The OpenCode server answers", 3 * HOUR),
          condition("ReferencesResolved", "True", "Resolved", "Everything it refers to was found", 24 * HOUR),
          condition("Suspended", "False", "Active", "", 3 * HOUR),
        ],
        ...part,
      } as Agent,
      { profile: part.profile, modelRef: { name: "sonnet" }, maxConcurrentTasks: part.slots?.total ?? 2 },
    );
  make("web-dev", "shop", {
    profile: "Works on the web shop: TypeScript, PostgreSQL",
    templateRef: { name: "node" },
    slots: { used: 2, total: 2 },
    maxConcurrentTasks: 2,
    queueLength: 3,
    contexts: [
      { type: "Git", name: "shop", mountPath: "shop", description: "The shop itself" },
      { type: "Text", name: "style", description: "How code looks here" },
    ],
    credentials: [{ name: "anthropic", secretRef: { name: "anthropic", key: "apiKey" }, env: "ANTHROPIC_API_KEY" }],
    tools: [{ ref: { kind: "RemoteMCPServer", name: "documents" }, count: 4 }],
    quota: { maxTaskStarts: 20, windowSeconds: 3600 },
  });
  make("reviewer", "shop", { profile: "Reads changes and says what is wrong with them", slots: { used: 1, total: 4 } });
  make("docs", "platform", {
    profile: "Writes and translates documentation",
    phase: "Suspended",
    suspendedBy: "Standby",
    standby: { idleTimeout: "30m" },
    slots: { used: 0, total: 1 },
    serverStatus: { ready: false, suspended: true, port: 4096, serviceName: "docs" },
    conditions: [condition("Suspended", "True", "Standby", "No work for 30m", 2 * HOUR)],
  });
  make("data-pipelines", "platform", {
    profile: "Python, dbt, Airflow",
    phase: "Pending",
    slots: { used: 0, total: 1 },
    serverStatus: { ready: false, suspended: false, port: 4096, serviceName: "data-pipelines" },
    conditions: [
      condition(
        "ReferencesResolved",
        "False",
        "ReferenceNotFound",
        "Model 'gpt' does not exist in namespace 'platform'",
      ),
    ],
  });
}

function tasks(store: Store, many: number): void {
  const random = dice(7);
  const now = Date.now();
  const iso = (time: number) => new Date(time).toISOString();
  const unremarkable = { priority: 0, stopRequested: false, awaitingApproval: false };
  const put = (given: Omit<Task, keyof typeof unremarkable> & Partial<typeof unremarkable>) => {
    const line = given.description?.split("\n")[0];
    const title = line && line.length > 72 ? line.split(". ")[0] : line;
    const task: Task = { ...unremarkable, title, createdBy: "ada@example.com", ...given };
    store.put("Task", task, {
      description: task.description,
      agentRef: task.agentRef,
      templateRef: task.templateRef,
      timeout: task.timeout,
      contexts: task.contexts,
    });
  };

  const contexts: Task["contexts"] = [
    {
      type: "Git",
      name: "shop",
      mountPath: "shop",
      git: { repository: "https://git.example.com/shop/shop", ref: "main", ...WHOLE },
    },
    { type: "Text", name: "rules", text: "Do not touch the public API." },
  ];
  const running = (name: string, description: string, minutes: number, part: Partial<Task> = {}) => {
    const start = now - minutes * MINUTE;
    store.messages.set(`shop/${name}`, transcript(start));
    store.logs.set(`shop/${name}`, LOG.slice(0, 13));
    put({
      name,
      namespace: "shop",
      phase: "Running",
      description,
      agentRef: { name: "web-dev" },
      timeout: "1h",
      podName: `${name}-pod`,
      contexts,
      priority: 0,
      runEpoch: 1,
      attempt: 1,
      createdAt: iso(start - 3 * MINUTE),
      timings: { queuedAt: iso(start - 3 * MINUTE), admittedAt: iso(start - 40_000), preparedAt: iso(start - 2_000) },
      startTime: iso(start),
      session: {
        id: "ses_7f3a",
        title: "Fix the login timeout",
        summary: { messageCount: 6, filesChanged: 1, additions: 6, deletions: 4 },
      },
      usage: { tokens: { input: 8330, output: 1140, reasoning: 120, cache: 21_000 }, cost: "0.0325" },
      labels: { "kubeopencode.io/agent": "web-dev", team: "shop" },
      conditions: [condition("Prepared", "True", "Prepared", "Contexts are in place", minutes * MINUTE)],
      ...part,
    });
  };
  running("fix-login-timeout", WORK[0][1], 4);
  running("upgrade-postgres-driver", WORK[1][1], 11, {
    awaitingApproval: true,
    session: { id: "ses_81bc", title: "Upgrade the PostgreSQL driver", summary: { messageCount: 9 } },
    usage: { tokens: { input: 40_330, output: 5140, reasoning: 920, cache: 121_000 }, cost: "0.2140" },
  });
  store.permissions.set("shop/upgrade-postgres-driver", [
    { id: "per_1", permission: "bash", patterns: ["npm install pg@9.0.0"], always: ["npm install *"] },
  ]);
  store.approvals.set("shop/upgrade-postgres-driver", [
    {
      ...{ epoch: 1, request: "per_0", permission: "bash", patterns: ["git push origin main"], reply: "reject" },
      ...{ message: "push to a branch", by: "ada", via: "Page", at: iso(now - 3 * MINUTE), accepted: true },
    },
  ]);
  running("review-payment-api", WORK[3][1], 1, { agentRef: { name: "reviewer" } });

  ["speed-up-search", "flaky-cart-test", "remove-dead-code"].forEach((name, i) => {
    const message = "Agent 'web-dev' runs at most 2 Tasks at a time and is busy";
    put({
      name,
      namespace: "shop",
      phase: "Queued",
      reason: "AgentAtCapacity",
      message,
      queuePosition: i + 1,
      priority: i === 0 ? 5 : 0,
      description: WORK.find(([key]) => key === name)?.[1] ?? "",
      agentRef: { name: "web-dev" },
      createdAt: iso(now - (12 - i) * MINUTE),
      timings: { queuedAt: iso(now - (12 - i) * MINUTE) },
      conditions: [condition("Queued", "True", "AgentAtCapacity", message, 12 * MINUTE)],
      labels: { team: "shop" },
    });
  });
  put({
    name: "monthly-report",
    namespace: "platform",
    phase: "Queued",
    reason: "AgentNotFound",
    message: "Agent 'analyst' does not exist in namespace 'platform'",
    queuePosition: 1,
    description: "Write the monthly report.",
    agentRef: { name: "analyst" },
    createdAt: iso(now - 2 * MINUTE),
    timings: { queuedAt: iso(now - 2 * MINUTE) },
    conditions: [condition("Queued", "True", "AgentNotFound", "Agent 'analyst' does not exist", 2 * MINUTE)],
  });

  const endings: [Task["phase"], string, string][] = [
    ["Completed", "Succeeded", "The agent finished its work"],
    ["Completed", "Succeeded", "The agent finished its work"],
    ["Completed", "Succeeded", "The agent finished its work"],
    ["Completed", "Succeeded", "The agent finished its work"],
    ["Failed", "ModelError", "The model answered 429: rate limit reached, try again in 20 s"],
    ["Completed", "Succeeded", "The agent finished its work"],
    ["Completed", "UserStopped", "Its user stopped it"],
    ["Completed", "Succeeded", "The agent finished its work"],
    ["Failed", "OOMKilled", "The container used more than its 768Mi of memory"],
    ["Completed", "Timeout", "It ran longer than its timeout of 30m"],
  ];
  for (let i = 0; i < many; i += 1) {
    const [base, description] = WORK[i % WORK.length] ?? WORK[0];
    const [phase, reason, message] = endings[Math.floor(random() * endings.length)] ?? ["Completed", "Succeeded", ""];
    const created = now - (i + 1) * 17 * MINUTE - Math.floor(random() * 10 * MINUTE);
    const start = created + 20_000 + Math.floor(random() * 90_000);
    const seconds = 30 + Math.floor(random() * 1500);
    const namespace = i % 4 === 3 ? "platform" : "shop";
    const name = `${base}-${String(many - i).padStart(4, "0")}`;
    const input = 4000 + Math.floor(random() * 60_000);
    put({
      name,
      namespace,
      phase,
      reason,
      message,
      exitCode: phase === "Failed" ? 1 : 0,
      description,
      ...(i % 7 === 3
        ? { templateRef: { name: namespace === "shop" ? "node" : "python" } }
        : { agentRef: { name: namespace === "shop" ? (i % 3 === 0 ? "reviewer" : "web-dev") : "docs" } }),
      podName: `${name}-pod`,
      runEpoch: i % 7 === 0 ? 2 : 1,
      attempt: 1,
      createdAt: iso(created),
      timings: {
        queuedAt: iso(created),
        admittedAt: iso(start - 12_000),
        preparedAt: iso(start - 1_000),
        collectedAt: iso(start + seconds * 1000 + 9_000),
      },
      startTime: iso(start),
      completionTime: iso(start + seconds * 1000),
      durationSeconds: seconds,
      duration: `${seconds}s`,
      session: {
        id: `ses_${i}`,
        title: base.replaceAll("-", " "),
        summary: { messageCount: 8, filesChanged: 2, additions: 14, deletions: 9 },
      },
      usage: {
        tokens: { input, output: Math.floor(input / 8), reasoning: 300, cache: input * 2 },
        cost: (input * 0.000004).toFixed(6),
      },
      logs: { lines: LOG.length, bytes: 1460, complete: true },
      labels: { team: namespace },
      cronTask: i % 5 === 2 ? "nightly-dependencies" : undefined,
      conditions: [condition("LogsCaptured", "True", "Captured", "the complete log is archived, 412 lines", created)],
      ...(phase === "Completed" ? LEFT : {}),
    });
    if (i < 40) {
      store.logs.set(`${namespace}/${name}`, LOG);
      store.messages.set(`${namespace}/${name}`, transcript(start));
    }
  }
}

function rest(store: Store): void {
  const now = Date.now();
  const made = (days: number) => new Date(now - days * 24 * HOUR).toISOString();
  const cron = (name: string, namespace: string, part: Partial<CronTask>, description: string) =>
    store.put(
      "CronTask",
      {
        name,
        namespace,
        schedule: "0 3 * * *",
        timeZone: "Europe/Berlin",
        concurrencyPolicy: "Forbid",
        maxRetainedTasks: 10,
        active: 0,
        totalExecutions: 41,
        createdAt: made(41),
        lastScheduleTime: new Date(now - 9 * HOUR).toISOString(),
        lastSuccessfulTime: new Date(now - 9 * HOUR).toISOString(),
        nextScheduleTime: new Date(now + 3 * HOUR).toISOString(),
        taskTemplate: { description, agentRef: { name: "web-dev" }, timeout: "1h" },
        conditions: [condition("Ready", "True", "Scheduled", "The next run is known", 24 * HOUR)],
        ...part,
      } as CronTask,
      {
        schedule: part.schedule ?? "0 3 * * *",
        timeZone: "Europe/Berlin",
        taskTemplate: { spec: { description, agentRef: { name: "web-dev" } } },
      },
    );
  cron("nightly-dependencies", "shop", {}, "Look for outdated dependencies, upgrade what is safe, run the tests.");
  cron("weekday-triage", "shop", { schedule: "0 9,13 * * 1-5" }, "Read the new issues and label them.");
  cron(
    "hourly-checks",
    "shop",
    {
      schedule: "0 * * * *",
      conditions: [
        condition(
          "Blocked",
          "True",
          "RetentionLimitReached",
          "10 Tasks of this CronTask exist and maxRetainedTasks is 10; delete Tasks or raise maxRetainedTasks",
          HOUR,
        ),
      ],
    },
    "Check that the shop answers.",
  );
  cron(
    "release-notes",
    "platform",
    { schedule: "0 9 1 * *", suspend: true, nextScheduleTime: undefined },
    "Write the release notes.",
  );

  const template = (name: string, namespace: string, part: Partial<AgentTemplate>) =>
    store.put(
      "AgentTemplate",
      {
        name,
        namespace,
        createdAt: made(30),
        executorImage: `quay.io/kubeopencode/executor-${name}:latest`,
        agentImage: "quay.io/kubeopencode/opencode:1.18",
        workspaceDir: "/workspace",
        serviceAccountName: "agent",
        modelRef: { name: "sonnet" },
        skillsCount: 1,
        skills: [{ name: "review", git: { repository: "https://git.example.com/platform/skills", path: "review" } }],
        conditions: [condition("Ready", "True", "Valid", "It can be used", 30 * 24 * HOUR)],
        ...part,
      } as AgentTemplate,
      {
        executorImage: `quay.io/kubeopencode/executor-${name}:latest`,
        workspaceDir: "/workspace",
        serviceAccountName: "agent",
      },
    );
  template("node", "shop", {
    agentCount: 1,
    taskCount: 12,
    activeTaskCount: 1,
    resolvedModel: "anthropic/claude-sonnet",
  });
  template("python", "platform", {
    agentCount: 0,
    taskCount: 3,
    activeTaskCount: 0,
    maxConcurrentTasks: 3,
    modelRef: undefined,
    resolvedModel: "openai/gpt-5",
  });

  const checked = new Date(now - 4 * MINUTE).toISOString();
  const registry: Registry = {
    name: "team-catalogue",
    namespace: "platform",
    createdAt: made(20),
    checkInterval: "10m",
    images: [
      {
        name: "node",
        image: "quay.io/kubeopencode/executor-node:22",
        phase: "Ready",
        digest: "sha256:3fa1c0de77aa01",
        lastChecked: checked,
        metadata: { description: "Node 22, TypeScript, Playwright", tags: ["web"] },
      },
      {
        name: "python",
        image: "quay.io/kubeopencode/executor-python:3.13",
        phase: "Ready",
        digest: "sha256:9b4411e0aa2c44",
        lastChecked: checked,
        metadata: { description: "Python 3.13 with uv", tags: ["data"] },
      },
    ],
    skills: [
      {
        name: "review",
        git: { repository: "https://git.example.com/platform/skills", ref: "main", path: "review", ...WHOLE },
        phase: "Ready",
        latestCommit: "4f1d2c9ab0e17744",
        lastChecked: checked,
        metadata: { description: "Reads a change as a reviewer would" },
      },
      {
        name: "incident",
        git: { repository: "https://git.example.com/platform/incident-skill", ref: "main", ...WHOLE },
        phase: "Unavailable",
        message: "404 Not Found",
        lastChecked: checked,
        metadata: { description: "Writes a timeline from logs", requiredCredentials: [{ env: "PAGER_TOKEN" }] },
      },
    ],
    plugins: [
      {
        name: "notify",
        plugin: { name: "opencode-notify@1.2.0", target: "server" },
        phase: "Ready",
        resolvedVersion: "1.2.0",
        lastChecked: checked,
        metadata: { description: "Tells a chat channel when a Task ends" },
      },
    ],
    summary: { images: 2, skills: 2, plugins: 1, readyCount: 4, totalCount: 5 },
    conditions: [condition("Ready", "False", "AssetsUnavailable", "Skill 'incident': 404 Not Found", 4 * MINUTE)],
  };
  store.put("Registry", registry, { checkInterval: "10m", images: registry.images, skills: registry.skills });

  const generic = (
    kind: string,
    name: string,
    namespace: string,
    spec: Record<string, unknown>,
    part: Partial<GenericObject> = {},
  ) =>
    store.put(
      kind,
      {
        kind,
        name,
        namespace,
        createdAt: made(12),
        ready: true,
        spec,
        conditions: [condition("Accepted", "True", "Valid", "The spec is valid", 12 * 24 * HOUR)],
        ...part,
      } as GenericObject,
      spec,
    );
  generic("ModelProvider", "anthropic", "shop", {
    type: "anthropic",
    apiKeySecretRef: { name: "anthropic", key: "apiKey" },
  });
  generic(
    "ModelProvider",
    "ollama",
    "platform",
    { type: "ollama", baseURL: "http://ollama.models.svc:11434/v1" },
    { ready: false },
  );
  generic("Model", "sonnet", "shop", {
    model: "claude-sonnet-4-5",
    providerRef: { name: "anthropic" },
    limit: { context: 200000, output: 64000 },
  });
  generic("Model", "small", "platform", { model: "qwen3:8b", providerRef: { name: "ollama" } });
  generic("Instruction", "careful", "shop", { text: "Read before you write. Say what you are not sure of." });
  generic(
    "RemoteMCPServer",
    "documents",
    "shop",
    { url: "https://mcp.example.com/mcp", refreshInterval: "5m" },
    { status: { toolCount: 4 } },
  );
  generic("MCPServer", "clock", "shop", { transport: "stdio", image: "docker.io/mcp/time:latest" });
  generic("AgentTool", "inventory", "shop", { description: "How many of each article are in stock" });
  generic("AgentWorkflow", "release", "shop", { description: "Test, write the notes, tag", steps: [] });

  store.config = {
    kind: "KubeOpenCodeConfig",
    spec: {
      systemImage: { image: "quay.io/kubeopencode/kubeopencode:0.2.0" },
      cleanup: { ttlSecondsAfterFinished: 604800, maxRetainedTasks: 1000 },
    },
    view: {
      name: "cluster",
      namespace: "",
      uid: "uid-config",
      resourceVersion: "900",
      createdAt: made(60),
      conditions: [condition("Applied", "True", "Applied", "The controller uses it", 24 * HOUR)],
    },
  };
}

/** A small company with two teams; `many` finished Tasks. */
export function seededStore(many: number): Store {
  const store = new Store();
  agents(store);
  tasks(store, many);
  rest(store);
  return store;
}
