import { useParams } from "react-router";
import { stringify } from "yaml";
import { type Kind, kindOfPlural } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { GenericObject } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { EmptyState } from "../../components/EmptyState";
import { Facts } from "../../components/Facts";
import { readyStatus } from "../../lib/phase";
import detail from "../Detail.module.css";
import { DetailPage } from "../DetailPage";
import { LabelList } from "../LabelList";
import { NotFound } from "../NotFound";
import { useNames } from "../useNames";
import { tellingOf } from "./facts";

export default function KindDetail() {
  const { plural = "" } = useParams();
  const kind = kindOfPlural(plural);
  return kind?.generic ? <Detail kind={kind} /> : <NotFound />;
}

function Detail({ kind }: { kind: Kind }) {
  const { namespace, name } = useNames();
  const query = useObject<GenericObject>(kind, namespace, name);
  return (
    <DetailPage kind={kind} query={query}>
      {(object) => ({
        status: readyStatus(object.ready),
        sub: tellingOf(object),
        removes: [`the ${kind.one} ${name}: what refers to it waits until it exists again`],
        tabs: [{ id: "overview", label: "Overview", content: () => <Overview object={object} /> }],
      })}
    </DetailPage>
  );
}

function Overview({ object }: { object: GenericObject }) {
  const status = Object.entries(object.status ?? {}).filter(([key]) => key !== "observedGeneration");
  return (
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
}
