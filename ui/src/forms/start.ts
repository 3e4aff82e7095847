import { AGENT, AGENT_TEMPLATE } from "../api/kinds";
import { useChoices } from "../api/objects";
import type { Agent, AgentTemplate } from "../api/types";
import { useNamespaceNames } from "../app/NamespaceSelect";
import { useNamespace } from "../app/namespace";
import type { Json } from "./manifest";

/** Where a new object starts, and who would do a new Task there. */
export interface Start {
  namespace: string;
  /** `agentRef` or `templateRef`, if there is no choice to make. */
  doer: Json;
}

type Named = { namespace: string; name: string };

/**
 * The chosen namespace; otherwise one where a Task can be done, `default` first; otherwise `default`, or the first.
 * Whoever is the only one to do a Task there is proposed.
 */
export function startOf(chosen: string, known: string[], agents: Named[], templates: Named[]): Start {
  const prefer = (names: string[]) => (names.includes("default") ? "default" : names[0]);
  const homes = (agents.length > 0 ? agents : templates).map((home) => home.namespace);
  const namespace = chosen || prefer(homes) || prefer(known) || "default";
  const here = (named: Named[]) => named.filter((one) => one.namespace === namespace);
  const [agent, another] = here(agents);
  const [template, second] = here(templates);
  if (agent) return { namespace, doer: another ? {} : { agentRef: { name: agent.name } } };
  return { namespace, doer: template && !second ? { templateRef: { name: template.name } } : {} };
}

/** The start of a form, once it is known what there is; what may not be listed counts as absent. */
export function useStart(): Start | undefined {
  const [chosen] = useNamespace();
  const known = useNamespaceNames();
  const agents = useChoices<Agent>(AGENT, chosen);
  const templates = useChoices<AgentTemplate>(AGENT_TEMPLATE, chosen);
  // Fetched, not pending: what was refused is asked for again by the form itself, and must not take the form away.
  if (!known.isFetched || !agents.isFetched || !templates.isFetched) return undefined;
  return startOf(chosen, known.data ?? [], agents.data ?? [], templates.data ?? []);
}
