import { useQuery } from "@tanstack/react-query";
import { call } from "../api/client";
import { keys } from "../api/keys";
import { Select } from "../components/Select";
import styles from "./NamespaceSelect.module.css";
import { useNamespace } from "./namespace";

export function useNamespaces(): string[] {
  const answer = useQuery({
    queryKey: keys.namespaces,
    queryFn: ({ signal }) => call<{ namespaces: string[] }>("/namespaces", { signal }),
    staleTime: 60_000,
  });
  return answer.data?.namespaces ?? [];
}

export function NamespaceSelect() {
  const [namespace, choose] = useNamespace();
  const known = useNamespaces();
  // A namespace from the address stays choosable even if it is not among those that the caller may list.
  const names = namespace !== "" && !known.includes(namespace) ? [namespace, ...known] : known;
  return (
    <div className={styles.select}>
      <span aria-hidden="true">Namespace</span>
      <Select
        aria-label="Namespace"
        value={namespace}
        onValue={choose}
        options={[{ value: "", label: "All namespaces" }, ...names.map((name) => ({ value: name, label: name }))]}
      />
    </div>
  );
}
