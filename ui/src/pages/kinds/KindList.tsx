import { Plus } from "lucide-react";
import type { Kind } from "../../api/kinds";
import type { GenericObject } from "../../api/types";
import { useAddress } from "../../app/address";
import { Badge } from "../../components/Badge";
import { LinkButton } from "../../components/LinkButton";
import { Segmented } from "../../components/Segmented";
import { readyStatus } from "../../lib/phase";
import type { Column } from "../../list/columns";
import { useListState } from "../../list/listState";
import { ageColumn, nameColumns } from "../../list/nameColumns";
import { ResourceList } from "../../list/ResourceList";
import { summaryOf } from "./summary";

const FILTERS = ["name", "labelSelector"];

function columnsOf(kind: Kind): Column<GenericObject>[] {
  return [
    ...nameColumns<GenericObject>(kind),
    {
      title: "Status",
      width: "110px",
      phone: "side",
      cell: (object) =>
        object.ready === undefined ? <span className="quiet">–</span> : <Badge status={readyStatus(object.ready)} />,
    },
    {
      title: "Summary",
      width: "minmax(200px, 3fr)",
      phone: "line",
      cell: (object) => <span title={summaryOf(object)}>{summaryOf(object)}</span>,
    },
    ageColumn<GenericObject>(),
  ];
}

/** The list of kinds without a dedicated page; several kinds can share the page. */
export default function KindList({ kinds, title }: { kinds: [Kind, ...Kind[]]; title?: string }) {
  const [params, change] = useAddress();
  const list = useListState(FILTERS, { by: "name", order: "asc" });
  const kind = kinds.find((entry) => entry.plural === params.get("kind")) ?? kinds[0];
  const create = (
    <LinkButton variant="primary" icon={<Plus size={15} />} to={`/kinds/${kind.plural}/create`}>
      New {kind.one}
    </LinkButton>
  );
  return (
    <ResourceList<GenericObject>
      key={kind.kind}
      kind={kind}
      title={title}
      list={list}
      columns={columnsOf(kind)}
      actions={create}
      emptyAction={create}
      above={
        kinds.length > 1 ? (
          <div>
            <Segmented
              label="Kind"
              value={kind.plural}
              options={kinds.map((entry) => ({ value: entry.plural, label: entry.many }))}
              onValue={(plural) =>
                change((next) => {
                  // Filters of one kind do not apply to another.
                  for (const name of [...FILTERS, "sort", "row"]) next.delete(name);
                  next.set("kind", plural);
                })
              }
            />
          </div>
        ) : undefined
      }
    />
  );
}
