import type { UseQueryResult } from "@tanstack/react-query";
import { MoreHorizontal, Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";
import type { Kind } from "../api/kinds";
import { useRights } from "../api/rights";
import type { Identified } from "../api/types";
import { Page } from "../app/Page";
import { Badge } from "../components/Badge";
import { Menu } from "../components/Menu";
import { PageHeader } from "../components/PageHeader";
import { type Tab, Tabs } from "../components/Tabs";
import { YamlPanel } from "../editor/YamlPanel";
import type { Status } from "../lib/phase";
import { DeleteDialog } from "./DeleteDialog";
import { DetailState } from "./DetailState";
import { useNames } from "./useNames";
import { useTab } from "./useTab";

/** The kind-specific parts of a detail page. */
export interface DetailParts {
  /** Title for people; the name if absent. */
  title?: string;
  status?: Status;
  /** Subtitle. */
  sub?: ReactNode;
  /** Buttons before the menu with Delete. */
  actions?: ReactNode;
  /** Notices between header and tabs. */
  above?: ReactNode;
  /** Kind-specific tabs; the YAML tab is added at the end. */
  tabs: Tab[];
  /** What a deletion removes, one line each. */
  removes: string[];
}

export interface DetailPageProps<T extends Identified> {
  kind: Kind;
  query: UseQueryResult<T>;
  children: (object: T) => DetailParts;
}

/** The detail page of any kind: header, tabs, YAML, deletion, loading and error states. */
export function DetailPage<T extends Identified>({ kind, query, children }: DetailPageProps<T>) {
  const { name } = useNames();
  const object = query.data;
  if (!object || query.error) return <DetailState kind={kind} name={name} query={query} />;
  return <Detail key={`${object.namespace}/${object.name}`} kind={kind} object={object} parts={children(object)} />;
}

function Detail({ kind, object, parts }: { kind: Kind; object: Identified; parts: DetailParts }) {
  const { namespace, name } = object;
  const [tab, setTab] = useTab(parts.tabs[0]?.id ?? "yaml");
  const [deleting, setDeleting] = useState(false);
  const may = useRights(namespace);
  return (
    <Page>
      <PageHeader
        title={parts.title ?? name}
        name={name}
        badge={parts.status && <Badge status={parts.status} />}
        crumbs={[{ label: kind.many, to: kind.list }, { label: namespace }]}
        sub={parts.sub}
        actions={
          <>
            {parts.actions}
            <Menu
              label="More actions"
              icon={<MoreHorizontal size={16} />}
              items={[
                {
                  label: "Delete",
                  icon: <Trash2 size={15} />,
                  danger: true,
                  disabled: !may(`delete ${kind.plural}`),
                  onSelect: () => setDeleting(true),
                },
              ]}
            />
          </>
        }
      />
      {parts.above}
      <Tabs
        label={`Parts of the ${kind.one}`}
        selected={tab}
        onSelect={setTab}
        tabs={[
          ...parts.tabs,
          { id: "yaml", label: "YAML", content: () => <YamlPanel kind={kind} namespace={namespace} name={name} /> },
        ]}
      />
      <DeleteDialog
        kind={kind}
        namespace={namespace}
        name={name}
        open={deleting}
        leaveTo={kind.list}
        consequences={parts.removes}
        onClose={() => setDeleting(false)}
      />
    </Page>
  );
}
