import { Pause, Play, Plus } from "lucide-react";
import { useState } from "react";
import { AGENT } from "../../api/kinds";
import { useAction } from "../../api/objects";
import { useRights } from "../../api/rights";
import type { Agent } from "../../api/types";
import { Button } from "../../components/Button";
import { ConfirmDialog } from "../../components/ConfirmDialog";
import { LinkButton } from "../../components/LinkButton";
import { toast } from "../../components/toast";

export function AgentActions({ agent }: { agent: Agent }) {
  const may = useRights(agent.namespace);
  const suspended = agent.phase === "Suspended" || agent.suspend === true;
  const turn = useAction<Agent>(AGENT, suspended ? "resume" : "suspend");
  const [asking, setAsking] = useState(false);
  const names = { namespace: agent.namespace, name: agent.name };
  const go = () =>
    turn.mutate(names, {
      onSuccess: () => {
        setAsking(false);
        toast.done(suspended ? "Resuming the Agent …" : "Suspending the Agent …");
      },
      onError: (error) => {
        if (suspended) toast.failed(error);
      },
    });
  return (
    <>
      <LinkButton
        variant="primary"
        icon={<Plus size={15} />}
        to={`/tasks/create?agent=${encodeURIComponent(agent.name)}&namespace=${encodeURIComponent(agent.namespace)}`}
      >
        New Task
      </LinkButton>
      <Button
        icon={suspended ? <Play size={14} /> : <Pause size={14} />}
        busy={turn.isPending}
        disabled={!may("update agents")}
        onClick={() => (suspended ? go() : setAsking(true))}
      >
        {suspended ? "Resume" : "Suspend"}
      </Button>
      <ConfirmDialog
        title={`Suspend Agent ${agent.name}?`}
        open={asking}
        confirm="Suspend"
        busy={turn.isPending}
        error={turn.error}
        onConfirm={go}
        onClose={() => {
          turn.reset();
          setAsking(false);
        }}
      >
        The Pod is deleted, the settings stay. Tasks wait until the Agent is resumed.
      </ConfirmDialog>
    </>
  );
}
