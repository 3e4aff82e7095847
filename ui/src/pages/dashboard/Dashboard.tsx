import { useQuery } from "@tanstack/react-query";
import { CircleCheck, CircleX, Clock3, Coins, Hand, LoaderCircle, Plus } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { call } from "../../api/client";
import { keys } from "../../api/keys";
import type { Summary } from "../../api/types";
import { useNamespace } from "../../app/namespace";
import { Page } from "../../app/Page";
import { Card } from "../../components/Card";
import { ErrorState } from "../../components/ErrorState";
import { Legend } from "../../components/Legend";
import { LinkButton } from "../../components/LinkButton";
import { PageHeader } from "../../components/PageHeader";
import { Segmented } from "../../components/Segmented";
import { Skeleton } from "../../components/Skeleton";
import { allTokens, count, humanize, money, short } from "../../lib/format";
import { AgentLoadList } from "./AgentLoadList";
import styles from "./Dashboard.module.css";
import { DashboardSkeleton } from "./DashboardSkeleton";
import { NextRuns } from "./NextRuns";
import { ReasonBars } from "./ReasonBars";
import { RecentTasks } from "./RecentTasks";
import { Tile } from "./Tile";

const UsageChart = lazy(() => import("./UsageChart"));
const OutcomeChart = lazy(() => import("./OutcomeChart"));

type Buckets = "hour" | "day";

/** The most frequent reason. */
function mostOften(reasons: Record<string, number>): string | undefined {
  const [first] = Object.entries(reasons).sort((a, b) => b[1] - a[1]);
  return first && humanize(first[0]);
}

/** Running, waiting and failed Tasks, and cost. */
export default function Dashboard() {
  const [namespace] = useNamespace();
  const [buckets, setBuckets] = useState<Buckets>("hour");
  const [measure, setMeasure] = useState<"cost" | "tokens">("cost");
  const summary = useQuery({
    queryKey: keys.summary(namespace, buckets),
    queryFn: ({ signal }) => call<Summary>("/summary", { query: { namespace, buckets }, signal }),
    placeholderData: (previous) => previous,
  });
  const header = (
    <PageHeader
      title="Dashboard"
      sub={namespace === "" ? "All namespaces" : `Namespace ${namespace}`}
      actions={
        <>
          <Segmented<Buckets>
            label="Period"
            value={buckets}
            options={[
              { value: "hour", label: "24 hours" },
              { value: "day", label: "30 days" },
            ]}
            onValue={setBuckets}
          />
          <LinkButton variant="primary" icon={<Plus size={15} />} to="/tasks/create">
            New Task
          </LinkButton>
        </>
      }
    />
  );
  if (summary.error) {
    return (
      <Page>
        {header}
        <ErrorState error={summary.error} onRetry={() => summary.refetch()} />
      </Page>
    );
  }
  if (!summary.data) {
    return (
      <Page>
        {header}
        <DashboardSkeleton />
      </Page>
    );
  }
  const { tasks, usage, agents, cronTasks, recent } = summary.data;
  const waiting = (tasks.byPhase.Queued ?? 0) + (tasks.byPhase.Pending ?? 0);
  const ended = tasks.completed24h + tasks.stopped24h + tasks.failed24h;
  const failures = buckets === "hour" ? tasks.failedByReason24h : tasks.failedByReason7d;
  const period = buckets === "hour" ? "24 hours" : "30 days";
  const chartWait = <Skeleton height="100%" />;

  return (
    <Page>
      {header}
      <div className={styles.tiles}>
        <Tile
          label="Running"
          value={count(tasks.byPhase.Running ?? 0)}
          note={`${agents.ready} of ${agents.total} Agents ready`}
          icon={LoaderCircle}
          tone="busy"
          to="/tasks?phase=Running"
        />
        <Tile
          label="Waiting"
          value={count(waiting)}
          note={mostOften(tasks.waitingByReason) ?? "queue empty"}
          icon={Clock3}
          tone="warn"
          to="/tasks?phase=Queued,Pending"
        />
        {tasks.awaitingApproval > 0 && (
          <Tile
            label="Need approval"
            value={count(tasks.awaitingApproval)}
            note="waiting for an answer"
            icon={Hand}
            tone="warn"
            to="/tasks?phase=Running"
          />
        )}
        <Tile
          label="Completed"
          value={count(tasks.completed24h)}
          note="in 24 hours"
          icon={CircleCheck}
          tone="good"
          to="/tasks?phase=Completed"
        />
        <Tile
          label="Failed"
          value={count(tasks.failed24h)}
          note={ended === 0 ? "in 24 hours" : `${Math.round((tasks.failed24h / ended) * 100)}% failure rate`}
          icon={CircleX}
          tone="bad"
          to="/tasks?phase=Failed"
        />
        <Tile
          label={`Cost, ${period}`}
          value={money(usage.cost)}
          note={`${short(allTokens(usage.tokens))} tokens`}
          icon={Coins}
          tone="idle"
        />
      </div>
      <div className={styles.grid}>
        <Card
          title={measure === "cost" ? "Cost" : "Tokens"}
          className={styles.half}
          tools={
            <Segmented
              label="Measure"
              value={measure}
              options={[
                { value: "cost", label: "Cost" },
                { value: "tokens", label: "Tokens" },
              ]}
              onValue={setMeasure}
            />
          }
        >
          <figure className={styles.chart} aria-label={`${measure} over ${period}: ${money(usage.cost)} total`}>
            <Suspense fallback={chartWait}>
              <UsageChart data={usage.buckets} buckets={buckets} show={measure} />
            </Suspense>
          </figure>
        </Card>
        <Card
          title="Finished Tasks"
          className={styles.half}
          tools={
            <Legend
              entries={[
                { name: "Completed", colour: "var(--chart-1)" },
                { name: "Stopped", colour: "var(--chart-3)" },
                { name: "Failed", colour: "var(--bad)" },
              ]}
            />
          }
        >
          <figure className={styles.chart} aria-label={`Finished Tasks over ${period}`}>
            <Suspense fallback={chartWait}>
              <OutcomeChart data={usage.buckets} buckets={buckets} />
            </Suspense>
          </figure>
        </Card>
        <Card title="Waiting Tasks by reason" className={styles.third}>
          <ReasonBars
            reasons={tasks.waitingByReason}
            tone="warn"
            to={(reason) => `/tasks?phase=Queued,Pending&reason=${reason}`}
            empty="Queue empty"
          />
        </Card>
        <Card
          title="Failed Tasks by reason"
          className={styles.third}
          tools={buckets === "hour" ? "24 hours" : "7 days"}
        >
          <ReasonBars
            reasons={failures}
            tone="bad"
            to={(reason) => `/tasks?phase=Failed&reason=${reason}`}
            empty="No failures"
          />
        </Card>
        <Card title="Next scheduled runs" className={styles.third}>
          <NextRuns cronTasks={cronTasks} />
        </Card>
        <Card
          title="Agents"
          flush
          className={styles.all}
          tools={`${agents.ready} ready, ${agents.suspended} suspended`}
        >
          <AgentLoadList agents={agents.items} />
        </Card>
        <Card
          title="Newest Tasks"
          flush
          className={styles.all}
          tools={
            <LinkButton small to="/tasks">
              All {count(tasks.total)}
            </LinkButton>
          }
        >
          <RecentTasks tasks={recent} />
        </Card>
      </div>
    </Page>
  );
}
