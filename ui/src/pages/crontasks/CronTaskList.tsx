import { Plus } from "lucide-react";
import { CRON_TASK } from "../../api/kinds";
import type { CronTask } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { LinkButton } from "../../components/LinkButton";
import type { Column } from "../../list/columns";
import { useListState } from "../../list/listState";
import { ageColumn, nameColumns } from "../../list/nameColumns";
import { ResourceList } from "../../list/ResourceList";
import { blockedBy, cronStatus, nextRun } from "./cronStatus";

const columns: Column<CronTask>[] = [
  ...nameColumns<CronTask>(CRON_TASK),
  {
    title: "Status",
    width: "minmax(256px, 2fr)",
    phone: "side",
    cell: (cron) => <Badge status={cronStatus(cron)} title={blockedBy(cron)?.message} />,
  },
  { title: "Schedule", width: "minmax(100px, 1fr)", phone: "line", cell: (cron) => <code>{cron.schedule}</code> },
  { title: "Zone", width: "minmax(66px, 0.8fr)", phone: "none", cell: (cron) => cron.timeZone ?? "UTC" },
  { title: "Active", width: "52px", end: true, phone: "none", cell: (cron) => cron.active ?? 0 },
  { title: "Last run", width: "72px", end: true, phone: "none", cell: (cron) => <Ago at={cron.lastScheduleTime} /> },
  { title: "Next run", width: "72px", end: true, phone: "line", cell: (cron) => <Ago at={nextRun(cron)} /> },
  ageColumn<CronTask>(),
];

export default function CronTaskList() {
  const list = useListState(["name", "labelSelector"]);
  const create = (
    <LinkButton variant="primary" icon={<Plus size={15} />} to="/crontasks/create">
      New CronTask
    </LinkButton>
  );
  return (
    <ResourceList<CronTask> kind={CRON_TASK} list={list} columns={columns} actions={create} emptyAction={create} />
  );
}
