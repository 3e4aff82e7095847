import { Trash2 } from "lucide-react";
import { useState } from "react";
import { useParams } from "react-router";
import { stringify } from "yaml";
import { type Kind, kindOfPlural } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { GenericObject } from "../../api/types";
import { Page } from "../../app/Page";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { EmptyState } from "../../components/EmptyState";
import { Facts } from "../../components/Facts";
import { PageHeader } from "../../components/PageHeader";
import { Tabs } from "../../components/Tabs";
import { YamlPanel } from "../../editor/YamlPanel";
import { readyStatus } from "../../lib/phase";
import { DeleteDialog } from "../DeleteDialog";
import { DetailState } from "../DetailState";
import { LabelList } from "../LabelList";
import { NotFound } from "../NotFound";
import detail from "../tasks/TaskDetail.module.css";
import { useNames } from "../useNames";
import { useTab } from "../useTab";
import { tellingOf } from "./facts";

export default function KindDetail() {
  const { plural = "" } = useParams();
  const kind = kindOfPlural(plural);
  return kind?.generic ? <Detail kind={kind} /> : <NotFound />;
}

function Detail({ kind }: { kind: Kind }) {
  const { namespace, name } = useNames();
  const [tab, setTab] = useTab("overview");
  const [deleting, setDeleting] = useState(false);
  const query = useObject<GenericObject>(kind, namespace, name);
  const object = query.data;
  if (!object || query.error) return <DetailState kind={kind} name={name} query={query} />;
  const status = Object.entries(object.status ?? {}).filter(([key]) => key !== "observedGeneration");
  const overview = (
    <div className={detail.cards}>
      <Card title="Facts">
        <Facts
          facts={[
            ["Kind", object.kind],
            ["Namespace", object.namespace],
            ["Created", <Ago key="created" at={object.createdAt} />],
            ["Labels", <LabelList key="labels" labels={object.labels} />],
          ]}
        />
      </Card>
      <Card title="Status">
        {status.length > 0 ? (
          <Facts
            facts={status.map(([key, value]) => [
              key,
              <code key={key}>{typeof value === "object" ? stringify(value).trim() : String(value)}</code>,
            ])}
          />
        ) : (
          <EmptyState small title="Nothing reported" />
        )}
      </Card>
      <Card title="Conditions">
        <ConditionList conditions={object.conditions} />
      </Card>
    </div>
  );
  return (
    <Page>
      <PageHeader
        title={object.name}
        badge={<Badge status={readyStatus(object.ready)} />}
        crumbs={[{ label: kind.many, to: kind.list }, { label: object.namespace }]}
        sub={tellingOf(object)}
        actions={
          <Button look="danger" icon={<Trash2 size={14} />} onClick={() => setDeleting(true)}>
            Delete
          </Button>
        }
      />
      <Tabs
        label={`Parts of the ${kind.one}`}
        selected={tab}
        onSelect={setTab}
        tabs={[
          { id: "overview", label: "Overview", content: () => overview },
          { id: "yaml", label: "YAML", content: () => <YamlPanel kind={kind} namespace={namespace} name={name} /> },
        ]}
      />
      <DeleteDialog
        kind={kind}
        namespace={namespace}
        name={name}
        open={deleting}
        leaveTo={kind.list}
        consequences={[`the ${kind.one} ${name}: what refers to it waits until it exists again`]}
        onClose={() => setDeleting(false)}
      />
    </Page>
  );
}
