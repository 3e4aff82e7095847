import { useQuery } from "@tanstack/react-query";
import { Share2 } from "lucide-react";
import { useMemo, useState } from "react";
import { call } from "../../api/client";
import { keys } from "../../api/keys";
import type { Graph } from "../../api/types";
import { useNamespace } from "../../app/namespace";
import { Page } from "../../app/Page";
import { Checkbox } from "../../components/Checkbox";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { Notice } from "../../components/Notice";
import { PageHeader } from "../../components/PageHeader";
import { Skeleton } from "../../components/Skeleton";
import { Stack } from "../../components/Stack";
import { relativesOf } from "../../lib/layers";
import { FilterInput } from "../../list/FilterInput";
import { usePhone } from "../../list/usePhone";
import { GraphView } from "./GraphView";

/** What refers to what: from Secrets on the left to Tasks on the right. */
export default function GraphPage() {
  const [namespace] = useNamespace();
  const [words, setWords] = useState("");
  const phone = usePhone();
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const graph = useQuery({
    queryKey: keys.graph(namespace),
    queryFn: ({ signal }) => call<Graph>("/graph", { query: { namespace }, signal }),
    placeholderData: (seen) => seen,
  });
  const kinds = useMemo(() => [...new Set(graph.data?.nodes.map((node) => node.kind) ?? [])].sort(), [graph.data]);
  const shown = useMemo(() => {
    const { nodes = [], edges = [] } = graph.data ?? {};
    const wanted = words.trim().toLowerCase();
    const visible = nodes.filter((node) => !hidden.has(node.kind));
    if (wanted === "") return { nodes: visible, edges };
    const near = new Set<string>();
    for (const node of visible) {
      if (node.name.toLowerCase().includes(wanted)) for (const id of relativesOf(node.id, edges)) near.add(id);
    }
    return { nodes: visible.filter((node) => near.has(node.id)), edges };
  }, [graph.data, words, hidden]);

  const toggle = (kind: string, on: boolean) =>
    setHidden((seen) => {
      const next = new Set(seen);
      if (on) next.delete(kind);
      else next.add(kind);
      return next;
    });

  return (
    <Page fill>
      <PageHeader
        title="Graph"
        sub="What is used stands left of what uses it. Point at something to see what it concerns."
      />
      {graph.error ? (
        <ErrorState error={graph.error} onRetry={() => graph.refetch()} />
      ) : !graph.data ? (
        <Skeleton height="60vh" />
      ) : graph.data.nodes.length === 0 ? (
        <EmptyState title="Nothing here yet" icon={<Share2 size={20} />}>
          Create an Agent, a Model or a Task, and this shows how they belong together.
        </EmptyState>
      ) : (
        <>
          <Stack row gap={3}>
            <FilterInput
              main
              label="Filter by name"
              placeholder={phone ? "Filter by name" : "Filter by name  ( / )"}
              value={words}
              onValue={setWords}
            />
            {kinds.map((kind) => (
              <Checkbox key={kind} label={kind} checked={!hidden.has(kind)} onValue={(on) => toggle(kind, on)} />
            ))}
          </Stack>
          {graph.data.truncated && (
            <Notice tone="warn">There is more than can be drawn: choose a namespace to see all of it.</Notice>
          )}
          {shown.nodes.length === 0 ? (
            <EmptyState small title="Nothing matches" />
          ) : (
            <GraphView nodes={shown.nodes} edges={shown.edges} />
          )}
        </>
      )}
    </Page>
  );
}
