/**
 * The bodies of the REST API, by the names that the page uses.
 *
 * This file is the one seam between the page and the wire: when `schema.ts` is generated from the
 * OpenAPI document (`npm run generate`), these names become aliases of its schemas, and nothing else changes.
 */

export type TaskPhase = "Pending" | "Queued" | "Running" | "Completed" | "Failed";
export type AgentPhase = "Pending" | "Running" | "Failed" | "Suspended";
export type ConcurrencyPolicy = "Allow" | "Forbid" | "Replace";
export type ContextType = "Text" | "ConfigMap" | "Git" | "Runtime" | "URL";

export interface NameRef {
  name: string;
  namespace?: string;
}

export interface ObjectRef {
  kind: string;
  name: string;
  namespace?: string;
}

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

/** What every object of every kind has. */
export interface Identified {
  name: string;
  namespace: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  createdAt?: string;
  labels?: Record<string, string>;
  conditions?: Condition[];
}

export interface Page<T> {
  items: T[];
  total: number;
}

export interface Tokens {
  input: number;
  output: number;
  reasoning: number;
  cache: number;
}

export interface ContextItem {
  name?: string;
  description?: string;
  optional?: boolean;
  type: ContextType;
  mountPath?: string;
  fileMode?: number;
  text?: string;
  configMap?: { name: string; key?: string; optional?: boolean };
  git?: {
    repository: string;
    path?: string;
    ref?: string;
    depth?: number;
    recurseSubmodules?: boolean;
    secretRef?: NameRef;
  };
  runtime?: Record<string, never>;
  url?: {
    source: string;
    headers?: Record<string, string>;
    secretRef?: NameRef;
    timeout?: number;
    insecureSkipTLSVerify?: boolean;
  };
  sync?: { enabled?: boolean; interval?: string; policy?: string };
}

export interface TaskTimings {
  queuedAt?: string;
  admittedAt?: string;
  podCreatedAt?: string;
  scheduledAt?: string;
  preparedAt?: string;
}

export interface TaskSession {
  id?: string;
  title?: string;
  summary?: {
    messageCount?: number;
    tokenUsage?: Tokens;
    cost?: string;
    filesChanged?: number;
    additions?: number;
    deletions?: number;
  };
}

export interface Dependency {
  task: string;
  condition?: string;
}

export interface Task extends Identified {
  phase?: TaskPhase;
  description?: string;
  agentRef?: NameRef;
  templateRef?: NameRef;
  timeout?: string;
  podName?: string;
  session?: TaskSession;
  startTime?: string;
  completionTime?: string;
  duration?: string;
  durationSeconds?: number;
  annotations?: Record<string, string>;
  reason?: string;
  message?: string;
  exitCode?: number;
  queuePosition?: number;
  priority?: number;
  runEpoch?: number;
  attempt?: number;
  timings?: TaskTimings;
  usage?: { tokens?: Tokens; cost?: string };
  result?: { summary?: string; outputs?: Record<string, unknown> };
  logs?: { lines?: number; bytes?: number; complete?: boolean; gaps?: number };
  cronTask?: string;
  dependsOn?: Dependency[];
  contexts?: ContextItem[];
  stopRequested?: boolean;
  awaitingApproval?: boolean;
  deletionTimestamp?: string;
}

export type CauseLevel = "info" | "wait" | "error" | "done";

export interface Cause {
  level: CauseLevel;
  reason?: string;
  message: string;
  object?: ObjectRef;
  since?: string;
}

export interface Setting {
  path: string;
  value?: unknown;
  origin?: { from: "Task" | "Agent" | "Template" | "Config" | "Environment" | "BuiltIn"; name?: string };
  originText?: string;
}

export interface QueueState {
  target?: ObjectRef;
  position?: number;
  waiting?: number;
  running?: number;
  maxConcurrentTasks?: number;
  ahead?: { name: string; phase?: TaskPhase; priority?: number; createdAt?: string; startTime?: string }[];
}

export interface Explain {
  phase?: TaskPhase;
  reason?: string;
  message?: string;
  chain: Cause[];
  queue?: QueueState;
  quota?: { maxTaskStarts: number; windowSeconds: number; used: number; nextStartAt?: string };
  dependencies?: { task: string; condition?: string; phase?: TaskPhase; met: boolean; exists: boolean }[];
  settings?: Setting[];
  settingsError?: string;
  next?: string[];
}

export interface AgentExplain {
  phase?: AgentPhase;
  ready?: boolean;
  chain: Cause[];
  settings?: Setting[];
  settingsError?: string;
  queue?: QueueState;
  running?: { name: string; phase?: TaskPhase; startTime?: string }[];
  next?: string[];
}

export interface PermissionRequest {
  id: string;
  sessionID?: string;
  permission: string;
  patterns?: string[];
  metadata?: Record<string, unknown>;
  always?: string[];
}

export interface CronTask extends Identified {
  schedule: string;
  timeZone?: string;
  concurrencyPolicy?: ConcurrencyPolicy;
  suspend?: boolean;
  maxRetainedTasks?: number;
  startingDeadlineSeconds?: number;
  active?: number;
  activeTasks?: string[];
  lastScheduleTime?: string;
  lastSuccessfulTime?: string;
  nextScheduleTime?: string;
  totalExecutions?: number;
  taskTemplate?: {
    description?: string;
    agentRef?: NameRef;
    templateRef?: NameRef;
    timeout?: string;
    contexts?: ContextItem[];
  };
}

export interface Upcoming {
  schedule?: string;
  timeZone?: string;
  suspended?: boolean;
  times: { at: string; local: string }[];
}

export interface Skill {
  name: string;
  git?: { repository: string; ref?: string; path?: string; names?: string[]; secretRef?: NameRef };
}

export interface Plugin {
  name: string;
  target?: string;
  options?: Record<string, unknown>;
}

/** What Agents and AgentTemplates have in common. */
export interface AgentSettings extends Identified {
  executorImage?: string;
  agentImage?: string;
  attachImage?: string;
  workspaceDir?: string;
  serviceAccountName?: string;
  contextsCount?: number;
  credentialsCount?: number;
  skillsCount?: number;
  pluginsCount?: number;
  maxConcurrentTasks?: number;
  quota?: { maxTaskStarts: number; windowSeconds: number };
  credentials?: { name: string; secretRef?: { name: string; key?: string }; mountPath?: string; env?: string }[];
  contexts?: ContextItem[];
  skills?: Skill[];
  plugins?: Plugin[];
  config?: unknown;
  modelRef?: NameRef;
}

export interface AgentTemplate extends AgentSettings {
  agentCount?: number;
  taskCount?: number;
}

export interface Slots {
  used: number;
  total?: number;
}

export interface Agent extends AgentSettings {
  profile?: string;
  templateRef?: NameRef;
  standby?: { idleTimeout: string };
  share?: { enabled?: boolean; active?: boolean; expiresAt?: string; allowedIPs?: string[] };
  serverStatus?: {
    deploymentName?: string;
    serviceName?: string;
    url?: string;
    ready?: boolean;
    port?: number;
    suspended?: boolean;
    idleSince?: string;
    gitSyncStatuses?: { name: string; commitHash?: string; lastSynced?: string }[];
  };
  phase?: AgentPhase;
  suspend?: boolean;
  suspendedBy?: "User" | "Standby";
  slots?: Slots;
  queueLength?: number;
  resolvedModel?: string;
  tools?: { ref: ObjectRef; count?: number; missing?: string[] }[];
  persistence?: { sessions?: VolumeRequest; workspace?: VolumeRequest };
}

export interface VolumeRequest {
  size?: string;
  storageClassName?: string;
}

export interface ShareLink {
  enabled: boolean;
  active?: boolean;
  token?: string;
  path?: string;
  expiresAt?: string;
  allowedIPs?: string[];
}

export interface ShareInfo {
  agentName: string;
  namespace: string;
  profile?: string;
  expiresAt?: string;
}

export type AssetPhase = "Ready" | "Unavailable";

export interface Asset {
  name: string;
  phase?: AssetPhase;
  lastChecked?: string;
  message?: string;
  metadata?: {
    description?: string;
    category?: string;
    tags?: string[];
    tools?: string[];
    requiredCredentials?: { env: string; description?: string }[];
  };
}

export interface Registry extends Identified {
  checkInterval?: string;
  npmRegistryURL?: string;
  images?: (Asset & { image: string; digest?: string })[];
  skills?: (Asset & { git?: Skill["git"]; latestCommit?: string })[];
  plugins?: (Asset & { plugin?: Plugin; resolvedVersion?: string })[];
  summary?: { images: number; skills: number; plugins: number; readyCount: number; totalCount: number };
}

export interface Config {
  name: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  createdAt?: string;
  labels?: Record<string, string>;
  conditions?: Condition[];
  systemImage?: { image?: string; imagePullPolicy?: string };
  cleanup?: { ttlSecondsAfterFinished?: number; maxRetainedTasks?: number };
  proxy?: { httpProxy?: string; httpsProxy?: string; noProxy?: string };
  clusterDomain?: string;
  observability?: unknown;
  defaults?: unknown;
}

/** An object of a kind that has no form of its own. */
export interface GenericObject extends Identified {
  kind: string;
  ready?: boolean;
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
}

export interface UsageBucket {
  start: string;
  tokens: number;
  cost: string;
  completed: number;
  failed: number;
  stopped: number;
}

export interface AgentLoad {
  namespace: string;
  name: string;
  phase?: AgentPhase;
  ready?: boolean;
  slots?: Slots;
  queueLength?: number;
}

export interface Summary {
  tasks: {
    total: number;
    byPhase: Partial<Record<TaskPhase, number>>;
    waitingByReason: Record<string, number>;
    failedByReason24h: Record<string, number>;
    failedByReason7d: Record<string, number>;
    completed24h: number;
    failed24h: number;
    awaitingApproval: number;
  };
  usage: { tokens: Tokens; cost: string; buckets: UsageBucket[] };
  agents: { total: number; ready: number; suspended: number; items: AgentLoad[] };
  cronTasks: { total: number; suspended: number; next: { namespace: string; name: string; at: string }[] };
  recent: Task[];
}

export interface GraphNode {
  id: string;
  kind: string;
  namespace?: string;
  name: string;
  ready?: boolean;
  exists?: boolean;
  detail?: string;
}

export interface GraphEdge {
  from: string;
  to: string;
  label?: string;
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  truncated?: boolean;
}

export interface WhoAmI {
  user: string;
  groups?: string[];
  anonymous?: boolean;
  readOnly?: boolean;
  via?: "bearer" | "session" | "anonymous";
  csrfToken?: string;
  expiresAt?: string;
}

export interface Info {
  version: string;
  authentication?: { anonymous?: boolean; anonymousWrite?: boolean };
  features?: string[];
}

export interface LogContainer {
  name: string;
  init?: boolean;
  state?: "running" | "waiting" | "terminated";
  exitCode?: number;
}

/** One message of the log stream. */
export type LogMessage =
  | { type: "status"; phase?: TaskPhase; podPhase?: string; podName?: string }
  | { type: "log"; content: string; time?: string }
  | { type: "info"; message: string }
  | { type: "error"; message: string }
  | { type: "complete"; phase?: TaskPhase };

/** One message of the feed of object changes. */
export interface Change {
  kind: string;
  namespace?: string;
  name: string;
  type: "ADDED" | "MODIFIED" | "DELETED";
  uid?: string;
  resourceVersion?: string;
  object?: Identified;
}

/** OpenCode's own message: passed through by the server as it is. */
export interface SessionMessage {
  info: {
    id: string;
    role: "user" | "assistant";
    finish?: string;
    error?: { name?: string; data?: { message?: string } };
    cost?: number;
    tokens?: { input?: number; output?: number; reasoning?: number; cache?: { read?: number; write?: number } };
    time?: { created?: number; completed?: number };
    modelID?: string;
    providerID?: string;
  };
  parts: SessionPart[];
}

export interface SessionPart {
  id?: string;
  type: string;
  text?: string;
  tool?: string;
  state?: {
    status?: "pending" | "running" | "completed" | "error";
    input?: Record<string, unknown>;
    output?: string;
    title?: string;
    error?: string;
    metadata?: { diff?: string; exit?: number; [key: string]: unknown };
  };
  filename?: string;
  files?: string[];
}

export interface FieldProblem {
  field: string;
  message: string;
}
