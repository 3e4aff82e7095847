import type { ContextItem } from "../api/types";
import { Stack } from "../components/Stack";
import { Tag } from "../components/Tag";
import styles from "./ContextList.module.css";

function detailOf(item: ContextItem): string {
  switch (item.type) {
    case "Text":
      return item.text?.slice(0, 160) ?? "";
    case "Git":
      return item.git ? `${item.git.repository}${item.git.ref ? ` at ${item.git.ref}` : ""}` : "";
    case "ConfigMap":
      return item.configMap
        ? `ConfigMap ${item.configMap.name}${item.configMap.key ? `, key ${item.configMap.key}` : ""}`
        : "";
    case "URL":
      return item.url?.source ?? "";
    case "Runtime":
      return "runtime information";
  }
}

/** The contexts of an agent. */
export function ContextList({ contexts }: { contexts: ContextItem[] | undefined }) {
  if (!contexts || contexts.length === 0) return <p className="quiet">None.</p>;
  return (
    <ul className={styles.list}>
      {contexts.map((item, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a context may have no name.
        <li key={i}>
          <Stack row gap={2}>
            <Tag>{item.type}</Tag>
            <strong>{item.name ?? item.mountPath ?? `context ${i + 1}`}</strong>
            {item.mountPath && item.name && <code>{item.mountPath}</code>}
            {item.optional && <span className="quiet">optional</span>}
          </Stack>
          <div className={styles.detail}>{item.description ?? detailOf(item)}</div>
        </li>
      ))}
    </ul>
  );
}
