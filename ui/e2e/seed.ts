import type { Cluster, KubeObject } from "./cluster";
import { START_MS } from "./limits";

/** The namespace of the demo and its objects. */
export const NS = "demo";
export const AGENT = "helper";
export const TEMPLATE = "scripted";
export const CRON_TASK = "report";

/** Objects that are added to the demo. */
export const ASKING_AGENT = "asks-first";
export const REGISTRY = "catalogue";
export const MODEL = "small";

const API = "kubeopencode.io/v1alpha1";

export function ours(kind: string, name: string, spec: object, namespace = NS): KubeObject {
  return { apiVersion: API, kind, metadata: { namespace, name }, spec };
}

/** No server listens on this port: lookups fail immediately, without a network. */
const NOWHERE = "127.0.0.1:9";

const OBJECTS: KubeObject[] = [
  ours("Agent", ASKING_AGENT, {
    profile: "Asks before it does anything",
    templateRef: { name: TEMPLATE },
    approval: { mode: "Always" },
  }),
  ours("Registry", REGISTRY, {
    checkInterval: "1h",
    images: [
      { name: "dev", image: `${NOWHERE}/dev:1`, metadata: { description: "General development", tags: ["base"] } },
    ],
    skills: [{ name: "review", git: { repository: `http://${NOWHERE}/skills.git` } }],
    plugins: [],
  }),
  ours("ModelProvider", "local", { type: "openai-compatible", baseURL: `http://${NOWHERE}/v1` }),
  ours("Model", MODEL, { providerRef: { name: "local" }, model: "small-1" }),
  ours("Instruction", "house-rules", { text: "Write tests first." }),
  ours("RemoteMCPServer", "tickets", { url: `http://${NOWHERE}/mcp` }),
];

/** Adds objects to the demo, so that every page has content. */
export async function seed(cluster: Cluster): Promise<void> {
  // The demo creates its namespace shortly after the start.
  const deadline = Date.now() + START_MS;
  for (;;) {
    try {
      await cluster.call("GET", `/api/v1/namespaces/${NS}`);
      break;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
  for (const object of OBJECTS) await cluster.create(object);
}
