import type { ReactNode } from "react";
import { useParams } from "react-router";
import { stringify } from "yaml";
import { type Kind, kindOfPlural } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { GenericObject } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { Facts } from "../../components/Facts";
import { readyStatus } from "../../lib/phase";
import detail from "../Detail.module.css";
import { DetailPage } from "../DetailPage";
import { LabelList } from "../LabelList";
import { NotFound } from "../NotFound";
import { useNames } from "../useNames";
import { summaryOf } from "./summary";

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
        status: object.ready === undefined ? undefined : readyStatus(object.ready),
        sub: summaryOf(object),
        removes: [`the ${kind.one} ${name}: objects that refer to it wait until it exists again`],
        tabs: [{ id: "overview", label: "Overview", content: () => <Overview object={object} /> }],
      })}
    </DetailPage>
  );
}

/** Display form of a value: a reference by its name, nested values as YAML. */
function read(value: unknown): string {
  if (value === null || typeof value !== "object") return String(value);
  const [[key, name] = [], ...more] = Object.entries(value);
  return key === "name" && more.length === 0 ? String(name) : stringify(value).trim();
}

function fieldsOf(part: Record<string, unknown>): [string, ReactNode][] {
  return Object.entries(part).map(([key, value]) => [
    key,
    <code key={key} className={detail.code}>
      {read(value)}
    </code>,
  ]);
}

function Overview({ object }: { object: GenericObject }) {
  const { observedGeneration: _, conditions: _shown, ...status } = object.status ?? {};
  return (
    <div className={detail.cards}>
      <Card title="Spec">
        <Facts facts={fieldsOf(object.spec)} />
      </Card>
      {Object.keys(status).length > 0 && (
        <Card title="Status">
          <Facts facts={fieldsOf(status)} />
        </Card>
      )}
      {object.conditions.length > 0 && (
        <Card title="Conditions">
          <ConditionList conditions={object.conditions} />
        </Card>
      )}
      <Card title="Details">
        <Facts
          facts={[
            ["Kind", object.kind],
            ["Namespace", object.namespace],
            ["Created", <Ago key="created" at={object.createdAt} />],
            ["Labels", <LabelList key="labels" labels={object.labels} />],
          ]}
        />
      </Card>
    </div>
  );
}
