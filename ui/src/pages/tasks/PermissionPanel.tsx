import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import type { PermissionRequest, Task } from "../../api/types";
import { Button } from "../../components/Button";
import { Problem } from "../../components/Problem";
import { Stack } from "../../components/Stack";
import { TextInput } from "../../components/TextInput";
import { toast } from "../../components/toast";
import styles from "./PermissionPanel.module.css";

type Reply = "once" | "always" | "reject";

/** Permission requests of the agent, with buttons to answer them. */
export function PermissionPanel({ task }: { task: Task }) {
  const cache = useQueryClient();
  const target = `${objectPath("tasks", task.namespace, task.name)}/permissions`;
  const [reason, setReason] = useState("");
  const asked = useQuery({
    queryKey: keys.permissions(task.namespace, task.name),
    queryFn: ({ signal }) => call<{ permissions: PermissionRequest[] }>(target, { signal }),
    enabled: task.phase === "Running",
    retry: false,
  });
  const answer = useMutation({
    mutationFn: ({ id, reply }: { id: string; reply: Reply }) =>
      call<void>(`${target}/${encodeURIComponent(id)}`, {
        method: "POST",
        json: { reply, message: reply === "reject" && reason !== "" ? reason : undefined },
      }),
    onSuccess: (_nothing, { reply }) => {
      toast.done(reply === "reject" ? "Rejected." : "Allowed. The agent continues.");
      setReason("");
      void cache.invalidateQueries({ queryKey: keys.permissions(task.namespace, task.name) });
      void cache.invalidateQueries({ queryKey: keys.approvals(task.namespace, task.name) });
    },
  });
  const requests = task.phase === "Running" ? (asked.data?.permissions ?? []) : [];
  return requests.map((request) => (
    <section key={request.id} className={styles.request} aria-label={`Permission ${request.permission}`}>
      <h2>Permission request: {request.permission}</h2>
      {request.patterns && request.patterns.length > 0 && (
        <div className={`${styles.patterns} mono`}>
          {request.patterns.map((pattern) => (
            <span key={pattern}>{pattern}</span>
          ))}
        </div>
      )}
      <TextInput
        aria-label="Reason for the rejection"
        placeholder="Reason for the agent, if you reject (optional)"
        value={reason}
        onValue={setReason}
      />
      {answer.error ? <Problem error={answer.error} /> : null}
      <Stack row gap={2}>
        <Button
          variant="primary"
          busy={answer.isPending}
          onClick={() => answer.mutate({ id: request.id, reply: "once" })}
        >
          Allow once
        </Button>
        <Button disabled={answer.isPending} onClick={() => answer.mutate({ id: request.id, reply: "always" })}>
          Allow always{request.always?.length ? ` (${request.always.join(", ")})` : ""}
        </Button>
        <Button
          variant="danger"
          disabled={answer.isPending}
          onClick={() => answer.mutate({ id: request.id, reply: "reject" })}
        >
          Reject
        </Button>
      </Stack>
    </section>
  ));
}
