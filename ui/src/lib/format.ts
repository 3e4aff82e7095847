import type { Tokens } from "../api/types";
import { full } from "./time";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A number with separators: 12,345. */
export function count(value: number): string {
  return whole.format(value);
}

/** A compact number: 12.3K. */
export function short(value: number): string {
  return value < 10_000 ? whole.format(value) : compact.format(value);
}

/** An amount in dollars; small amounts keep enough digits to differ from zero. */
export function money(value: string | number | undefined): string {
  const amount = Number(value ?? 0);
  if (!Number.isFinite(amount)) return "–";
  if (amount === 0) return "$0";
  if (amount < 0.01) return `$${amount.toFixed(4)}`;
  return `$${amount.toFixed(2)}`;
}

/** An amount on an axis, with enough digits that ticks differ. */
export function moneyMark(amount: number): string {
  return `$${Number(amount.toPrecision(3))}`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let rest = value;
  let unit = 0;
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${rest < 10 && unit > 0 ? rest.toFixed(1) : Math.round(rest)} ${units[unit]}`;
}

export function allTokens(tokens: Tokens | undefined): number {
  return tokens ? tokens.input + tokens.output + tokens.reasoning + tokens.cache : 0;
}

/** `1 Task`, `2 Tasks`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/**
 * Capitalizes a message of a controller. Names and code keep their first letter; timestamps are converted to the
 * local time zone.
 */
export function sentence(message: string): string {
  const local = message.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, full);
  return /^[a-z]+[ ,']/.test(local) ? local.charAt(0).toUpperCase() + local.slice(1) : local;
}

/** `AgentAtCapacity` becomes `Agent at capacity`; abbreviations stay. */
export function humanize(reason: string): string {
  const parts = reason.match(/[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+/g) ?? [reason];
  return parts
    .map((part, i) => {
      if (part.length > 1 && part === part.toUpperCase()) return part;
      return i === 0 ? part.charAt(0).toUpperCase() + part.slice(1) : part.toLowerCase();
    })
    .join(" ");
}
