import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import type { Agent, ShareLink } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { Command } from "../../components/Command";
import { ConfirmDialog } from "../../components/ConfirmDialog";
import { ErrorState } from "../../components/ErrorState";
import { Facts } from "../../components/Facts";
import { Field } from "../../components/Field";
import { Notice } from "../../components/Notice";
import { Problem } from "../../components/Problem";
import { Select } from "../../components/Select";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Stack } from "../../components/Stack";
import { TextInput } from "../../components/TextInput";
import { toast } from "../../components/toast";
import { FieldPair } from "../../forms/FieldPair";
import { shareOrigin } from "../../lib/shareOrigin";

const TIMES = [
  { value: "1h", label: "One hour" },
  { value: "8h", label: "Eight hours" },
  { value: "24h", label: "One day" },
  { value: "168h", label: "One week" },
  { value: "", label: "No expiry" },
];

/** A link that gives access to the terminal of the Agent. */
export function AgentShare({ agent }: { agent: Agent }) {
  const cache = useQueryClient();
  const target = `${objectPath("agents", agent.namespace, agent.name)}/share`;
  const key = keys.share(agent.namespace, agent.name);
  const [expiresIn, setExpiresIn] = useState("24h");
  const [addresses, setAddresses] = useState("");
  const [revoking, setRevoking] = useState(false);
  const share = useQuery({ queryKey: key, queryFn: ({ signal }) => call<ShareLink>(target, { signal }) });
  const enable = useMutation({
    mutationFn: () =>
      call<ShareLink>(target, {
        method: "POST",
        json: {
          enabled: true,
          expiresIn: expiresIn || undefined,
          allowedIPs: addresses.split(/[\s,]+/).filter(Boolean),
        },
      }),
    onSuccess: (link) => cache.setQueryData(key, link),
  });
  const revoke = useMutation({
    mutationFn: () => call<void>(target, { method: "DELETE" }),
    onSuccess: () => {
      setRevoking(false);
      toast.done("Link revoked.");
      void cache.invalidateQueries({ queryKey: key });
    },
  });

  if (share.error) return <ErrorState small error={share.error} onRetry={() => share.refetch()} />;
  if (!share.data) return <SkeletonBlock lines={4} label="Loading the share link" />;
  const link = share.data;

  if (link.enabled) {
    return (
      <Card title="Share link" tools={link.active ? "active" : "inactive"}>
        <Stack gap={4}>
          {link.path ? (
            <Command text={new URL(link.path, shareOrigin(window.location)).href} />
          ) : (
            <Notice tone="idle">
              {link.active
                ? "You cannot see the link: it requires permission to read its Secret."
                : "Creating the link …"}
            </Notice>
          )}
          <Facts
            facts={[
              ["Expires", link.expiresAt ? <Ago key="ends" at={link.expiresAt} /> : "never"],
              ["Allowed from", link.allowedIPs?.length ? link.allowedIPs.join(", ") : "anywhere"],
            ]}
          />
          <div>
            <Button variant="danger" onClick={() => setRevoking(true)}>
              Revoke
            </Button>
          </div>
        </Stack>
        <ConfirmDialog
          title="Revoke the share link?"
          open={revoking}
          confirm="Revoke"
          danger
          busy={revoke.isPending}
          error={revoke.error}
          onConfirm={() => revoke.mutate()}
          onClose={() => setRevoking(false)}
        >
          Terminals opened through the link close within seconds. A new link has a different address.
        </ConfirmDialog>
      </Card>
    );
  }
  return (
    <Card title="Share link">
      <Stack gap={4}>
        <p>
          Whoever has the link can use this Agent's terminal without signing in. They can do everything that the Agent
          can.
        </p>
        <FieldPair>
          <Field label="Valid for" required>
            {(parts) => <Select {...parts} value={expiresIn} options={TIMES} onValue={setExpiresIn} />}
          </Field>
          <Field label="Allowed addresses" hint="IP addresses or CIDR ranges, separated by commas.">
            {(parts) => <TextInput {...parts} value={addresses} placeholder="10.0.0.0/8" onValue={setAddresses} />}
          </Field>
        </FieldPair>
        {enable.error ? <Problem error={enable.error} /> : null}
        <div>
          <Button variant="primary" busy={enable.isPending} onClick={() => enable.mutate()}>
            Create link
          </Button>
        </div>
      </Stack>
    </Card>
  );
}
