import type { Identified } from "./types";

/** Whether `incoming` is newer than `cached`. Versions are numbers in practice; otherwise any other version is newer. */
export function isNewer(cached: string | undefined, incoming: string | undefined): boolean {
  if (!cached || !incoming) return true;
  const [a, b] = [Number(cached), Number(incoming)];
  if (Number.isNaN(a) || Number.isNaN(b)) return cached !== incoming;
  return b > a;
}

/** Fields that lists omit; any other absent field was removed. */
const DETAIL_ONLY = new Set(["contexts", "description", "result"]);

/**
 * Merges an update into the cached object unless the update is older: responses and the event stream can arrive in any
 * order. Updates have the list form, which omits long fields: those are kept from the cached object.
 */
export function newest<T extends Identified>(cached: T, update: T | undefined): T {
  if (!update || !isNewer(cached.resourceVersion, update.resourceVersion)) return cached;
  const kept = Object.fromEntries(Object.entries(cached).filter(([key]) => key in update || DETAIL_ONLY.has(key)));
  const whole = (cached as { description?: string }).description;
  const beginning = (update as { description?: string }).description;
  const description = whole && beginning && whole.startsWith(beginning) ? { description: whole } : {};
  return { ...kept, ...update, ...description };
}
