import { useQuery } from "@tanstack/react-query";
import { call } from "./client";
import { keys } from "./keys";

const RESOURCES = ["tasks", "crontasks", "agents", "agenttemplates", "registries"] as const;
const VERBS = ["create", "update", "delete"] as const;

export type Right = `${(typeof VERBS)[number]} ${string}`;

/**
 * The permissions of the user in a namespace, to disable buttons. Unknown permissions count as granted:
 * the server decides, and a disabled button that would have worked is worse than an error message.
 */
export function useRights(namespace: string): (right: Right) => boolean {
  const checks = RESOURCES.flatMap((resource) => VERBS.map((verb) => ({ verb, resource, namespace })));
  const answer = useQuery({
    queryKey: keys.rights(namespace),
    queryFn: ({ signal }) => call<{ allowed: boolean[] }>("/rights", { method: "POST", json: { checks }, signal }),
    enabled: namespace !== "",
    staleTime: 60_000,
    retry: false,
  });
  return (right) => {
    const [verb, resource] = right.split(" ");
    const at = checks.findIndex((check) => check.verb === verb && check.resource === resource);
    return at < 0 ? true : (answer.data?.allowed[at] ?? true);
  };
}
