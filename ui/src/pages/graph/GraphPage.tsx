import { keepPreviousData, useQuery } from "@tanstack/react-query";
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
import { relatedTo } from "../../lib/related";
import { FilterInput } from "../../list/FilterInput";
import { usePhone } from "../../list/usePhone";
import { GraphView } from "./GraphView";

/** References between objects: from Secrets on the left to Tasks on the right. */
export default function GraphPage() {
  const [namespace] = useNamespace();
  const [filter, setFilter] = useState("");
  const phone = usePhone();
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const graph = useQuery({
    queryKey: keys.graph(namespace),
    queryFn: ({ signal }) => call<Graph>("/graph", { query: { namespace }, signal }),
    placeholderData: keepPreviousData,
  });
  const kinds = useMemo(() => [...new Set(graph.data?.nodes.map((node) => node.kind) ?? [])].sort(), [graph.data]);
  const shown = useMemo(() => {
    const { nodes = [], edges = [] } = graph.data ?? {};
    const wanted = filter.trim().toLowerCase();
    const visible = nodes.filter((node) => !hidden.has(node.kind));
    if (wanted === "") return { nodes: visible, edges };
    const related = new Set<string>();
    for (const node of visible) {
      if (node.name.toLowerCase().includes(wanted)) for (const id of relatedTo(node.id, edges)) related.add(id);
    }
    return { nodes: visible.filter((node) => related.has(node.id)), edges };
  }, [graph.data, filter, hidden]);

  const toggle = (kind: string, on: boolean) =>
    setHidden((previous) => {
      const next = new Set(previous);
      if (on) next.delete(kind);
      else next.add(kind);
      return next;
    });

  return (
    <Page fill>
      <PageHeader title="Graph" sub="Dependencies flow left to right. Hover to highlight related objects." />
      {graph.error ? (
        <ErrorState error={graph.error} onRetry={() => graph.refetch()} />
      ) : !graph.data ? (
        <Skeleton height="60vh" />
      ) : graph.data.nodes.length === 0 ? (
        <EmptyState title="No objects yet" icon={<Share2 size={20} />}>
          The graph shows how Agents, Models and Tasks refer to each other. Create one to start.
        </EmptyState>
      ) : (
        <>
          <Stack row gap={3}>
            <FilterInput
              main
              label="Filter by name"
              placeholder={phone ? "Filter by name" : "Filter by name  ( / )"}
              value={filter}
              onValue={setFilter}
            />
            {kinds.map((kind) => (
              <Checkbox key={kind} label={kind} checked={!hidden.has(kind)} onValue={(on) => toggle(kind, on)} />
            ))}
          </Stack>
          {graph.data.truncated && (
            <Notice tone="warn">Too many objects to show all of them. Select a namespace.</Notice>
          )}
          {shown.nodes.length === 0 ? (
            <EmptyState small title="No matches" />
          ) : (
            <GraphView nodes={shown.nodes} edges={shown.edges} />
          )}
        </>
      )}
    </Page>
  );
}
