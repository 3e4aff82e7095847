import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { parse } from "yaml";

interface Kubeconfig {
  clusters: { cluster: { server: string; "certificate-authority-data": string } }[];
  users: { user: { "client-certificate-data": string; "client-key-data": string } }[];
}

export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: { name?: string; namespace?: string; [field: string]: unknown };
  [field: string]: unknown;
}

export interface Subject {
  kind: "ServiceAccount" | "Group";
  name: string;
  namespace?: string;
}

const PLURALS: Record<string, string> = { Registry: "registries" };
const RBAC = "rbac.authorization.k8s.io";

/** The Kubernetes API of the platform with all permissions, for the setup of tests. */
export class Cluster {
  private readonly server: URL;
  private readonly agent: Agent;

  constructor(kubeconfig: string) {
    const { clusters, users } = parse(readFileSync(kubeconfig, "utf8")) as Kubeconfig;
    const [{ cluster } = { cluster: undefined }] = clusters;
    const [{ user } = { user: undefined }] = users;
    if (!cluster || !user) throw new Error(`${kubeconfig} names no cluster`);
    const decode = (text: string) => Buffer.from(text, "base64");
    this.server = new URL(cluster.server);
    this.agent = new Agent({
      keepAlive: true,
      maxSockets: 16,
      ca: decode(cluster["certificate-authority-data"]),
      cert: decode(user["client-certificate-data"]),
      key: decode(user["client-key-data"]),
    });
  }

  call<T>(method: string, path: string, body?: unknown, type = "application/json"): Promise<T> {
    return new Promise((done, failed) => {
      const sent = request(
        new URL(path, this.server),
        { method, agent: this.agent, headers: { "Content-Type": type } },
        (answer) => {
          const pieces: Buffer[] = [];
          answer.on("data", (piece: Buffer) => pieces.push(piece));
          answer.on("error", failed);
          answer.on("end", () => {
            const text = Buffer.concat(pieces).toString();
            if ((answer.statusCode ?? 500) < 300) done(JSON.parse(text) as T);
            else failed(new Error(`${method} ${path}: ${answer.statusCode} ${text}`));
          });
        },
      );
      sent.on("error", failed);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  create(object: KubeObject): Promise<KubeObject> {
    return this.call("POST", listPath(object), object);
  }

  /** Changes fields of an object by a merge patch. */
  patch(object: KubeObject, change: object): Promise<KubeObject> {
    return this.call("PATCH", `${listPath(object)}/${object.metadata.name}`, change, "application/merge-patch+json");
  }

  /** Creates a ServiceAccount and returns a token. */
  async tokenOf(namespace: string, name: string): Promise<string> {
    await this.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: { namespace, name } });
    const { status } = await this.call<{ status: { token: string } }>(
      "POST",
      `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
      { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { expirationSeconds: 3600 } },
    );
    return status.token;
  }

  /** Grants all permissions: in one namespace, or in the cluster. */
  makeAdmin(subject: Subject, namespace?: string): Promise<KubeObject> {
    return this.bind(subject, { kind: "ClusterRole", name: "cluster-admin" }, namespace);
  }

  /** Grants read access to the Tasks of a namespace. */
  async letSeeTasks(subject: Subject, namespace: string): Promise<void> {
    const name = `${subject.name}-sees-tasks`;
    const rules = [{ apiGroups: ["kubeopencode.io"], resources: ["tasks"], verbs: ["get", "list", "watch"] }];
    await this.create({ apiVersion: `${RBAC}/v1`, kind: "Role", metadata: { namespace, name }, rules });
    await this.bind(subject, { kind: "Role", name }, namespace);
  }

  private bind(subject: Subject, role: { kind: string; name: string }, namespace?: string): Promise<KubeObject> {
    const apiGroup = subject.kind === "Group" ? { apiGroup: RBAC } : {};
    return this.create({
      apiVersion: `${RBAC}/v1`,
      kind: namespace ? "RoleBinding" : "ClusterRoleBinding",
      metadata: { namespace, name: `${subject.name}-${role.name}` },
      roleRef: { apiGroup: RBAC, ...role },
      subjects: [{ ...apiGroup, ...subject }],
    });
  }
}

function listPath({ apiVersion, kind, metadata }: KubeObject): string {
  const group = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const plural = PLURALS[kind] ?? `${kind.toLowerCase()}s`;
  return metadata.namespace ? `${group}/namespaces/${metadata.namespace}/${plural}` : `${group}/${plural}`;
}
