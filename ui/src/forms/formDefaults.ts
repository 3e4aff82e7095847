import { AGENT, AGENT_TEMPLATE } from "../api/kinds";
import { useChoices } from "../api/objects";
import type { Agent, AgentTemplate } from "../api/types";
import { useNamespaceNames } from "../app/NamespaceSelect";
import { useNamespace } from "../app/namespace";
import type { Json } from "./manifest";

/** Preselected values of a form. */
export interface FormDefaults {
  namespace: string;
  /** `agentRef` or `templateRef` if there is only one option, otherwise empty. */
  runsOn: Json;
}

type Named = { namespace: string; name: string };

/**
 * The selected namespace; otherwise a namespace with an Agent or template, preferably `default`; otherwise `default` or
 * the first. The only Agent or template of the namespace is preselected.
 */
export function formDefaultsFor(chosen: string, known: string[], agents: Named[], templates: Named[]): FormDefaults {
  const prefer = (names: string[]) => (names.includes("default") ? "default" : names[0]);
  const homes = (agents.length > 0 ? agents : templates).map((home) => home.namespace);
  const namespace = chosen || prefer(homes) || prefer(known) || "default";
  const here = (named: Named[]) => named.filter((one) => one.namespace === namespace);
  const [agent, another] = here(agents);
  const [template, second] = here(templates);
  if (agent) return { namespace, runsOn: another ? {} : { agentRef: { name: agent.name } } };
  return { namespace, runsOn: template && !second ? { templateRef: { name: template.name } } : {} };
}

/** The defaults, once the lists are loaded; lists that the user may not read count as empty. */
export function useFormDefaults(): FormDefaults | undefined {
  const [chosen] = useNamespace();
  const known = useNamespaceNames();
  const agents = useChoices<Agent>(AGENT, chosen);
  const templates = useChoices<AgentTemplate>(AGENT_TEMPLATE, chosen);
  // `isFetched`, not `isPending`: a refetch of a forbidden list must not unmount the form.
  if (!known.isFetched || !agents.isFetched || !templates.isFetched) return undefined;
  return formDefaultsFor(chosen, known.data ?? [], agents.data ?? [], templates.data ?? []);
}
