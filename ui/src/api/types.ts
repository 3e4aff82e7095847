/**
 * The bodies of the REST API, by the names that the page uses. Only this file imports the generated schema.
 *
 * They are the schemas of the OpenAPI document (`schema.ts`, by `npm run generate`). One thing is corrected here and
 * nowhere else: the document has one identity for all kinds, and only the configuration has no namespace.
 */
import type { components } from "./schema";

type Schemas = components["schemas"];

/** The body of a namespaced object. */
type Namespaced<Name extends keyof Schemas> = Schemas[Name] & { namespace: string };

// Common types

export type Tokens = Schemas["TokenUsage"];
export type ContextType = Schemas["ContextType"];
export type ContextItem = Schemas["ContextItem"];
export type Condition = Schemas["Condition"];
export type FieldProblem = Schemas["FieldError"];

/** Fields of every object. */
export type Identified = Namespaced<"Identity"> & { conditions?: Condition[] };

export interface Page<T> {
  items: T[];
  total: number;
}

// Tasks

export type TaskPhase = Schemas["TaskPhase"];
export type Task = Namespaced<"TaskResponse"> & TaskResults;
export type Cause = Schemas["Cause"];
export type CauseLevel = Schemas["Level"];
export type Setting = Schemas["Setting"];
export type Explain = Schemas["TaskExplanation"];
export type PermissionRequest = Schemas["Permission"];
export type PermissionAnswer = Schemas["ApprovalResponse"];
export type LogSearch = Schemas["LogSearchResponse"];
export type LogContainer = Schemas["ContainerState"];
export type TaskRun = Schemas["RunResponse"];

// What a run leaves

/** An artifact of a run. */
export interface Artifact {
  epoch: number;
  name: string;
  /** Size of the archive. */
  bytes: number;
  files: number;
  digest: string;
  storedAt: string;
  expiresAt?: string;
  expired?: { at: string; cause: "Due" | "Age" | "Space" | "Count"; message: string };
}

/** A file, a link or an empty directory of an artifact. */
export interface ArtifactFile {
  /** For people. */
  name: string;
  /** For requests: the name, or `/hex/` and its bytes if they are not UTF-8. */
  path: string;
  kind: "file" | "link" | "directory";
  size?: number;
  digest?: string;
  executable?: boolean;
  target?: string;
}

export interface ArtifactFiles {
  files: ArtifactFile[];
  /** Number of all entries with the prefix. */
  total: number;
  /** The value of `after` for the next page. */
  next?: string;
}

export interface Outputs {
  epoch: number;
  outputs: Record<string, string>;
}

/** A cache that a run used. */
export interface Cache {
  name: string;
  /** Unset if the cache was not to be restored. */
  hit?: "Exact" | "Prefix" | "Miss";
  bytes?: number;
  seconds?: number;
  saved?: boolean;
}

/** Where the changes of a run were published. */
export interface Published {
  branch?: string;
  commit?: string;
  url?: string;
}

/** What a Task shows of what its run leaves. */
export interface TaskResults {
  caches?: Cache[];
  published?: Published;
  timings?: Schemas["Timings"] & { collectedAt?: string };
}

// CronTasks

export type CronTask = Namespaced<"CronTaskResponse">;
export type Upcoming = Schemas["Upcoming"];

// Agents and templates

export type AgentPhase = Schemas["AgentPhase"];
export type Agent = Namespaced<"AgentResponse">;
export type AgentTemplate = Namespaced<"AgentTemplateResponse">;
export type Skill = Schemas["SkillSource"];
export type Plugin = Schemas["PluginSpec"];
export type AgentExplain = Schemas["AgentExplanation"];
export type ShareLink = Schemas["ShareResponse"];

/** The public information about a shared Agent; not part of the OpenAPI document. */
export interface ShareInfo {
  agentName: string;
  namespace: string;
  profile?: string;
  expiresAt?: string;
}

/** The changes of a run in its workspace. */
export type TaskChanges = Schemas["TaskChangesResponse"];
export type ChangedFile = Schemas["ChangedFile"];

// Registries, configuration, other kinds

export type Registry = Namespaced<"RegistryResponse">;
/** An image, a skill or a plugin of a Registry. */
export type Asset = Schemas["Found"] & {
  name: string;
  metadata?: Schemas["ImageMetadata"] & Schemas["SkillMetadata"];
};
export type Config = Schemas["ConfigResponse"];
/** An object of a kind without a dedicated page. */
export type GenericObject = Namespaced<"ObjectResponse">;

// The setup of a first model

export type SetupProvider = SetupTest["provider"];
export type SetupTest = Schemas["SetupTest"];
export type SetupRequest = Schemas["SetupRequest"];
export type SetupFinding = Schemas["SetupFinding"];
export type SetupResponse = Schemas["SetupResponse"];

// Secrets: values only go to the server

export type Secret = Namespaced<"SecretResponse">;
export type NewSecret = Schemas["NewSecret"];
export type ChangedSecret = Schemas["ChangedSecret"];

// The dashboard and the graph

export type UsageBucket = Schemas["Bucket"];
export type AgentLoad = Schemas["AgentLoad"];
export type Summary = Omit<Schemas["Summary"], "recent"> & { recent: Task[] };
export type GraphNode = Schemas["Node"];
export type GraphEdge = Schemas["Edge"];
export type Graph = Schemas["Graph"];

/** An object that a search found. */
export type Found = Schemas["SearchResult"];

// User and server

export type WhoAmI = Schemas["WhoAmI"];
export type Info = Schemas["Info"];

// Streams and proxied bodies: not in the OpenAPI document

/** One message of the log stream. */
export type LogMessage =
  | {
      type: "status";
      phase?: TaskPhase;
      podPhase?: string;
      podName?: string;
      /** The container whose log follows. */
      container?: string;
      /** Start of the agent. */
      startTime?: string;
    }
  | { type: "log"; content: string; time?: string }
  | { type: "info"; message: string }
  | { type: "error"; message: string }
  /** `complete: false`: a part of the log was lost. `message` says what the log lacks, also beyond its limit. */
  | { type: "complete"; phase?: TaskPhase; complete?: boolean; message?: string };

/** One message of the event stream. */
export interface Change {
  kind: string;
  namespace?: string;
  name: string;
  type: "ADDED" | "MODIFIED" | "DELETED";
  uid?: string;
  resourceVersion?: string;
  object?: Identified;
}

/** A message of OpenCode, passed through unchanged. */
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
