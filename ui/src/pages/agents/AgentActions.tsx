import { MoreHorizontal, Pause, Play, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { AGENT } from "../../api/kinds";
import { useAction } from "../../api/objects";
import { useRights } from "../../api/rights";
import type { Agent } from "../../api/types";
import { Button } from "../../components/Button";
import { ConfirmDialog } from "../../components/ConfirmDialog";
import { LinkButton } from "../../components/LinkButton";
import { Menu } from "../../components/Menu";
import { toast } from "../../components/toast";
import { plural } from "../../lib/format";
import { DeleteDialog } from "../DeleteDialog";

function consequencesOf(agent: Agent): string[] {
  return [
    `the Agent ${agent.name} with its Deployment and Service`,
    ...(agent.slots?.used ? [`${plural(agent.slots.used, "Task")} that run on it: they fail with "Agent gone"`] : []),
    ...(agent.queueLength ? [`the place of ${plural(agent.queueLength, "Task")} that wait for it`] : []),
    ...(agent.persistence?.sessions ? ["the volume with its sessions"] : []),
    ...(agent.persistence?.workspace ? ["the volume with its workspace"] : []),
    ...(agent.share?.enabled ? ["its share link"] : []),
  ];
}

export function AgentActions({ agent }: { agent: Agent }) {
  const may = useRights(agent.namespace);
  const suspended = agent.phase === "Suspended" || agent.suspend === true;
  const turn = useAction<Agent>(AGENT, suspended ? "resume" : "suspend");
  const [asking, setAsking] = useState<"suspend" | "delete" | undefined>();
  const names = { namespace: agent.namespace, name: agent.name };
  const go = () =>
    turn.mutate(names, {
      onSuccess: () => {
        setAsking(undefined);
        toast.done(suspended ? "The Agent is starting." : "The Agent is going to rest.");
      },
      onError: (error) => {
        if (suspended) toast.failed(error);
      },
    });
  return (
    <>
      <LinkButton
        look="primary"
        icon={<Plus size={15} />}
        to={`/tasks/create?agent=${encodeURIComponent(agent.name)}&namespace=${encodeURIComponent(agent.namespace)}`}
      >
        New Task
      </LinkButton>
      <Button
        icon={suspended ? <Play size={14} /> : <Pause size={14} />}
        busy={turn.isPending}
        disabled={!may("update agents")}
        onClick={() => (suspended ? go() : setAsking("suspend"))}
      >
        {suspended ? "Resume" : "Suspend"}
      </Button>
      <Menu
        label="More actions"
        icon={<MoreHorizontal size={16} />}
        items={[
          {
            label: "Delete",
            icon: <Trash2 size={15} />,
            danger: true,
            disabled: !may("delete agents"),
            onSelect: () => setAsking("delete"),
          },
        ]}
      />
      <ConfirmDialog
        title={`Suspend Agent ${agent.name}?`}
        open={asking === "suspend"}
        confirm="Suspend"
        busy={turn.isPending}
        error={turn.error}
        onConfirm={go}
        onClose={() => {
          turn.reset();
          setAsking(undefined);
        }}
      >
        Its Pod goes, its settings stay. Tasks for it wait until it is resumed.
      </ConfirmDialog>
      <DeleteDialog
        kind={AGENT}
        {...names}
        open={asking === "delete"}
        leaveTo="/agents"
        consequences={consequencesOf(agent)}
        onClose={() => setAsking(undefined)}
      />
    </>
  );
}
