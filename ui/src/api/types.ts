/**
 * The bodies of the REST API, by the names that the page uses. This file is the one seam between the page and the wire.
 *
 * They are the schemas of the OpenAPI document (`schema.ts`, by `npm run generate`). Two things are put right here and
 * nowhere else: what the document calls a text though it is one of a few words, and what it calls a plain object because
 * it is a piece of a Kubernetes object whose fields the custom resource definition describes.
 */
import type { components } from "./schema";

type Schemas = components["schemas"];

/** The server leaves out what is unset and never sends null, which the document cannot say. */
type WithoutNull<T> = T extends (infer Item)[]
  ? WithoutNull<Item>[]
  : T extends object
    ? { [Field in keyof T]: WithoutNull<Exclude<T[Field], null>> }
    : T;

/** A schema, with some fields described more closely. A field that the document does not have is a mistake. */
type Body<
  Name extends keyof Schemas,
  Closer extends { [Field in keyof Closer]: Field extends keyof Schemas[Name] ? unknown : never } = object,
> = Omit<WithoutNull<Schemas[Name]>, keyof Closer> & Closer;

// Words

export type TaskPhase = "Pending" | "Queued" | "Running" | "Completed" | "Failed";
export type AgentPhase = "Pending" | "Running" | "Failed" | "Suspended";
export type AssetPhase = "Ready" | "Unavailable";
export type ConcurrencyPolicy = "Allow" | "Forbid" | "Replace";
export type ContextType = "Text" | "ConfigMap" | "Git" | "Runtime" | "URL";
export type CauseLevel = Schemas["Level"];

// Pieces of Kubernetes objects: plain objects in the document

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

export interface Skill {
  name: string;
  git?: { repository: string; ref?: string; path?: string; names?: string[]; secretRef?: NameRef };
}

export interface Plugin {
  name: string;
  target?: string;
  options?: Record<string, unknown>;
}

export interface VolumeRequest {
  size?: string;
  storageClassName?: string;
}

interface AssetMetadata {
  description?: string;
  category?: string;
  tags?: string[];
  tools?: string[];
  requiredCredentials?: { env: string; description?: string }[];
}

/** Fields of Agents and AgentTemplates. */
interface AgentSpecPieces {
  namespace: string;
  conditions: Condition[];
  contexts: ContextItem[];
  credentials: Credential[];
  quota?: { maxTaskStarts: number; windowSeconds: number };
  skills?: Skill[];
  plugins?: Plugin[];
  config?: unknown;
  modelRef?: { name: string; namespace?: string };
}

// What many bodies have

export type NameRef = Body<"NameRef">;
export type ObjectRef = Body<"ObjectName">;
export type Condition = Body<"Condition", { status: "True" | "False" | "Unknown" }>;
export type Slots = Body<"Slots">;
export type FieldProblem = Body<"FieldError">;

/** What every object of every kind has. */
export type Identified = Body<"Identity", { namespace: string }> & { conditions?: Condition[] };

export interface Page<T> {
  items: T[];
  total: number;
}

// Tasks

export type TaskTimings = Body<"Timings">;

export type Task = Body<
  "TaskResponse",
  {
    namespace: string;
    phase: TaskPhase;
    conditions: Condition[];
    session?: TaskSession;
    usage?: { tokens?: Tokens; cost?: string };
    dependsOn?: Dependency[];
    contexts?: ContextItem[];
  }
>;

export type Cause = Body<"Cause">;

export type Setting = Body<
  "Setting",
  { origin: { from: "Task" | "Agent" | "Template" | "Config" | "Environment" | "BuiltIn"; name?: string } }
>;

type Ahead = Body<"Ahead", { phase: TaskPhase }>;

export type QueueState = Body<"QueueState", { ahead: Ahead[] }>;

export type Explain = Body<
  "TaskExplanation",
  {
    phase: TaskPhase;
    queue?: QueueState;
    settings: Setting[];
    dependencies: Body<"DependencyState", { phase?: TaskPhase }>[];
  }
>;

export type PermissionRequest = Body<"Permission">;
export type LogContainer = Body<"ContainerState", { state: "running" | "waiting" | "terminated" }>;

// CronTasks

export type CronTask = Body<
  "CronTaskResponse",
  {
    namespace: string;
    concurrencyPolicy: ConcurrencyPolicy;
    conditions: Condition[];
    taskTemplate: Body<"CronTaskTemplate", { contexts?: ContextItem[] }>;
  }
>;

export type Upcoming = Body<"Upcoming">;

// Agents and templates

type Credential = Body<"Credential", { secretRef: { name: string; key?: string } }>;

export type AgentTemplate = Body<"AgentTemplateResponse", AgentSpecPieces>;

export type Agent = Body<
  "AgentResponse",
  AgentSpecPieces & {
    phase?: AgentPhase;
    suspendedBy?: "User" | "Standby";
    standby?: { idleTimeout: string };
    serverStatus: Body<
      "ServerStatus",
      { gitSyncStatuses?: { name: string; commitHash?: string; lastSynced?: string }[] }
    >;
    tools?: { ref: ObjectRef; count?: number; missing?: string[] }[];
    persistence?: { sessions?: VolumeRequest; workspace?: VolumeRequest };
  }
>;

/** What Agents and AgentTemplates have in common. */
export type AgentSettings = Pick<Agent, keyof Agent & keyof AgentTemplate>;

export type AgentExplain = Body<
  "AgentExplanation",
  { phase?: AgentPhase; settings: Setting[]; queue: QueueState; running: Ahead[] }
>;

export type ShareLink = Body<"ShareResponse">;

/** What a guest may know of an Agent that was shared: the document describes no body for it. */
export interface ShareInfo {
  agentName: string;
  namespace: string;
  profile?: string;
  expiresAt?: string;
}

// Registries, configuration, other kinds

export type Asset = Body<"Found", { phase?: AssetPhase }> & { name: string; metadata?: AssetMetadata };

export type Registry = Body<
  "RegistryResponse",
  {
    namespace: string;
    conditions: Condition[];
    images: Body<"Image", { phase?: AssetPhase; metadata?: AssetMetadata }>[];
    skills: Body<"Skill", { phase?: AssetPhase; metadata?: AssetMetadata; git: Skill["git"] }>[];
    plugins: Body<"Plugin", { phase?: AssetPhase; metadata?: AssetMetadata; plugin: Plugin }>[];
    summary?: { images: number; skills: number; plugins: number; readyCount: number; totalCount: number };
  }
>;

export type Config = Body<
  "ConfigResponse",
  {
    conditions: Condition[];
    systemImage?: { image?: string; imagePullPolicy?: string };
    cleanup?: { ttlSecondsAfterFinished?: number; maxRetainedTasks?: number };
    proxy?: { httpProxy?: string; httpsProxy?: string; noProxy?: string };
  }
>;

/** An object of a kind that has no form of its own. */
export type GenericObject = Body<"ObjectResponse", { namespace: string; conditions: Condition[] }>;

// The dashboard and the graph

export type UsageBucket = Body<"Bucket">;
export type AgentLoad = Body<"AgentLoad", { phase?: AgentPhase }>;

export type Summary = Body<
  "Summary",
  {
    tasks: Body<"TaskTotals", { byPhase: Partial<Record<TaskPhase, number>> }>;
    usage: Body<"UsageTotals", { tokens: Tokens }>;
    agents: Body<"AgentTotals", { items: AgentLoad[] }>;
    recent: Task[];
  }
>;

export type GraphNode = Body<"Node">;
export type GraphEdge = Body<"Edge">;
export type Graph = Body<"Graph">;

// Who is there

export type WhoAmI = Body<"WhoAmI", { via: "bearer" | "session" | "anonymous" }>;
export type Info = Body<"Info"> & { authentication: { oidc?: { name: string; path: string } } };

// Streams and what passes through: not in the document

/** One message of the log stream. */
export type LogMessage =
  | { type: "status"; phase?: TaskPhase; podPhase?: string; podName?: string }
  | { type: "log"; content: string; time?: string }
  | { type: "info"; message: string }
  | { type: "error"; message: string }
  /** `complete: false`: a part of the log could not be kept. */
  | { type: "complete"; phase?: TaskPhase; complete?: boolean };

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
