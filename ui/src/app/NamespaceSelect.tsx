import { useQuery } from "@tanstack/react-query";
import { call } from "../api/client";
import { keys } from "../api/keys";
import { Select } from "../components/Select";
import styles from "./NamespaceSelect.module.css";
import { useNamespace } from "./namespace";

/** The namespaces that the user may read. */
export function useNamespaceNames() {
  return useQuery({
    queryKey: keys.namespaces,
    queryFn: ({ signal }) =>
      call<{ namespaces: string[] }>("/namespaces", { signal }).then(({ namespaces }) => namespaces),
    staleTime: 60_000,
  });
}

export function useNamespaces(): string[] {
  return useNamespaceNames().data ?? [];
}

export function NamespaceSelect() {
  const [namespace, choose] = useNamespace();
  const known = useNamespaces();
  // A namespace from the URL stays selectable even if the user may not list it.
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
