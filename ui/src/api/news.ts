import type { Identified } from "./types";

/** Whether `incoming` is newer than what is seen. Versions are numbers in practice; if not, any other is news. */
export function isNews(seen: string | undefined, incoming: string | undefined): boolean {
  if (!seen || !incoming) return true;
  const [a, b] = [Number(seen), Number(incoming)];
  if (Number.isNaN(a) || Number.isNaN(b)) return seen !== incoming;
  return b > a;
}

/** Parts that a list form never carries; everything else that is absent from it is really gone. */
const DETAIL_ONLY = new Set(["contexts", "description", "result"]);

/**
 * An object as it is now, of what is seen and what is told. Answers and the feed overtake each other, so what is told
 * may be the older one. The feed tells the form of lists, without long parts: what was seen of them stays.
 */
export function freshest<T extends Identified>(seen: T, told: T | undefined): T {
  if (!told || !isNews(seen.resourceVersion, told.resourceVersion)) return seen;
  const kept = Object.fromEntries(Object.entries(seen).filter(([key]) => key in told || DETAIL_ONLY.has(key)));
  const whole = (seen as { description?: string }).description;
  const beginning = (told as { description?: string }).description;
  const description = whole && beginning && whole.startsWith(beginning) ? { description: whole } : {};
  return { ...kept, ...told, ...description };
}
