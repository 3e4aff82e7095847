import { type LucideIcon, Plus } from "lucide-react";
import { AGENT, AGENT_TEMPLATE, CRON_TASK, type Kind, kindNamed, pageOf, TASK } from "../api/kinds";
import type { Found } from "../api/types";
import { NAVIGATION } from "./navigationItems";

/** An entry of the command palette. */
export interface Command {
  id: string;
  label: string;
  /** Shown quietly after the label. */
  detail: string;
  icon?: LucideIcon;
  to: string;
}

const CREATED: Kind[] = [TASK, CRON_TASK, AGENT, AGENT_TEMPLATE];

const ACTIONS: Command[] = CREATED.map((kind) => ({
  id: `new-${kind.plural}`,
  label: kind === AGENT_TEMPLATE ? "New template" : `New ${kind.one}`,
  detail: "Action",
  icon: Plus,
  to: `${kind.list}/create`,
}));

const PAGES: Command[] = NAVIGATION.flatMap((group) =>
  group.items.map(({ label, to, icon }) => ({ id: `page-${to}`, label, detail: "Page", icon, to })),
);

/** Actions and pages whose label contains every word. */
export function commandsFor(text: string): Command[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return [...ACTIONS, ...PAGES].filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)));
}

/** The entries of found objects; kinds without a page are left out. */
export function commandsOf(found: Found[]): Command[] {
  return found.flatMap(({ kind, namespace, name, title }) => {
    const to = pageOf(kind, namespace, name);
    if (!to) return [];
    const one = kindNamed(kind)?.one ?? kind;
    return [
      {
        id: `object-${kind}-${namespace}-${name}`,
        label: title ?? name,
        detail: title ? `${one} ${name} · ${namespace}` : `${one} · ${namespace}`,
        to,
      },
    ];
  });
}
