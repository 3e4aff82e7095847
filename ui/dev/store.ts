import type { Change, Identified, PermissionAnswer, SessionMessage } from "../src/api/types";

export type Spec = Record<string, unknown>;

export interface Stored {
  kind: string;
  spec: Spec;
  /** The list form of the object, as returned by the API. */
  view: Identified;
}

/** Objects of the mock server, and listeners to their changes. */
export class Store {
  private objects = new Map<string, Stored>();
  private listeners = new Set<(id: number, change: Change) => void>();
  private changes: { id: number; change: Change }[] = [];
  private version = 1000;
  private changeId = 0;
  messages = new Map<string, SessionMessage[]>();
  logs = new Map<string, string[]>();
  approvals = new Map<string, PermissionAnswer[]>();
  permissions = new Map<string, { id: string; permission: string; patterns: string[]; always: string[] }[]>();
  shares = new Map<string, { token: string; expiresAt?: string; allowedIPs?: string[] }>();
  config: Stored | undefined;

  private key(kind: string, namespace: string, name: string): string {
    return `${kind}/${namespace}/${name}`;
  }

  get<T extends Identified = Identified>(kind: string, namespace: string, name: string): T | undefined {
    return this.objects.get(this.key(kind, namespace, name))?.view as T | undefined;
  }

  stored(kind: string, namespace: string, name: string): Stored | undefined {
    return this.objects.get(this.key(kind, namespace, name));
  }

  list<T extends Identified = Identified>(kind: string, namespace?: string): T[] {
    const found: T[] = [];
    for (const object of this.objects.values()) {
      if (object.kind === kind && (!namespace || object.view.namespace === namespace)) found.push(object.view as T);
    }
    return found;
  }

  /** Stores an object and notifies the listeners. */
  put(kind: string, view: Identified, spec?: Spec): void {
    const key = this.key(kind, view.namespace, view.name);
    const previous = this.objects.get(key);
    this.version += 1;
    const next = {
      uid: `uid-${kind}-${view.namespace}-${view.name}`.toLowerCase(),
      createdAt: new Date().toISOString(),
      generation: 1,
      ...view,
      resourceVersion: String(this.version),
    };
    this.objects.set(key, { kind, spec: spec ?? previous?.spec ?? {}, view: next });
    this.publish({
      kind,
      namespace: view.namespace,
      name: view.name,
      type: previous ? "MODIFIED" : "ADDED",
      uid: next.uid,
      resourceVersion: next.resourceVersion,
      object: next,
    });
  }

  patch<T extends Identified>(kind: string, namespace: string, name: string, part: Partial<T>): T | undefined {
    const previous = this.get<T>(kind, namespace, name);
    if (!previous) return undefined;
    this.put(kind, { ...previous, ...part });
    return this.get<T>(kind, namespace, name);
  }

  remove(kind: string, namespace: string, name: string): boolean {
    const gone = this.objects.delete(this.key(kind, namespace, name));
    if (gone) this.publish({ kind, namespace, name, type: "DELETED" });
    return gone;
  }

  listen(listener: (id: number, change: Change) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Changes after a position; `undefined` if the position is too old. */
  since(id: number): { id: number; change: Change }[] | undefined {
    const first = this.changes[0]?.id ?? this.changeId + 1;
    if (id > this.changeId || id < first - 1) return undefined;
    return this.changes.filter((entry) => entry.id > id);
  }

  get position(): number {
    return this.changeId;
  }

  private publish(change: Change): void {
    this.changeId += 1;
    this.changes.push({ id: this.changeId, change });
    if (this.changes.length > 500) this.changes.shift();
    for (const listener of this.listeners) listener(this.changeId, change);
  }
}
