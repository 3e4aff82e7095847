import { Plus } from "lucide-react";
import { REGISTRY } from "../../api/kinds";
import type { Registry } from "../../api/types";
import { Badge } from "../../components/Badge";
import { LinkButton } from "../../components/LinkButton";
import type { Status } from "../../lib/phase";
import type { Column } from "../../list/columns";
import { useListState } from "../../list/listState";
import { ageColumn, nameColumns } from "../../list/nameColumns";
import { ResourceList } from "../../list/ResourceList";

/** Availability of the assets. */
export function registryStatus(registry: Registry): Status {
  const { readyCount = 0, totalCount = 0 } = registry.summary ?? {};
  if (totalCount === 0) return { tone: "idle", label: "Empty" };
  return readyCount === totalCount
    ? { tone: "good", label: "All ready" }
    : { tone: "warn", label: `${readyCount} of ${totalCount} ready` };
}

const columns: Column<Registry>[] = [
  ...nameColumns<Registry>(REGISTRY),
  { title: "Status", width: "140px", phone: "side", cell: (registry) => <Badge status={registryStatus(registry)} /> },
  { title: "Images", width: "70px", end: true, phone: "line", cell: (registry) => registry.summary?.images ?? 0 },
  { title: "Skills", width: "70px", end: true, phone: "none", cell: (registry) => registry.summary?.skills ?? 0 },
  { title: "Plugins", width: "70px", end: true, phone: "none", cell: (registry) => registry.summary?.plugins ?? 0 },
  ageColumn<Registry>(),
];

export default function RegistryList() {
  const list = useListState(["name", "labelSelector"], { by: "name", order: "asc" });
  const create = (
    <LinkButton variant="primary" icon={<Plus size={15} />} to="/registries/create">
      New Registry
    </LinkButton>
  );
  return <ResourceList<Registry> kind={REGISTRY} list={list} columns={columns} actions={create} emptyAction={create} />;
}
