import { useNamespaces } from "../app/NamespaceSelect";
import { useNamespace } from "../app/namespace";

/** The namespace that a new object starts in: the chosen one, or `default`, or the first. */
export function useStartNamespace(): string {
  const [chosen] = useNamespace();
  const known = useNamespaces();
  if (chosen !== "") return chosen;
  return known.length === 0 || known.includes("default") ? "default" : (known[0] ?? "default");
}
