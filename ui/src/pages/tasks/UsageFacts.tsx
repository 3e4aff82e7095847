import type { Task } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { Facts } from "../../components/Facts";
import { allTokens, count, money } from "../../lib/format";
import { isFinished } from "../../lib/phase";

/** Usage of the run: tokens, cost, messages, changed files. */
export function UsageFacts({ task }: { task: Task }) {
  const summary = task.session?.summary;
  const tokens = task.usage?.tokens ?? summary?.tokenUsage;
  const lines = (summary?.additions ?? 0) + (summary?.deletions ?? 0);
  if (!tokens && !summary) {
    return (
      <EmptyState small title={isFinished(task.phase) ? "No usage recorded" : "No usage yet"}>
        {isFinished(task.phase)
          ? "The run finished before the model responded."
          : "Tokens and cost appear when the run has finished."}
      </EmptyState>
    );
  }
  return (
    <Facts
      facts={[
        ["Cost", money(task.usage?.cost ?? summary?.cost)],
        ["Tokens", tokens && count(allTokens(tokens))],
        ["Input", tokens && count(tokens.input)],
        ["Output", tokens && count(tokens.output)],
        ["Reasoning", tokens && tokens.reasoning > 0 && count(tokens.reasoning)],
        ["From cache", tokens && tokens.cache > 0 && count(tokens.cache)],
        ["Messages", summary?.messageCount !== undefined && count(summary.messageCount)],
        [
          "Files changed",
          summary?.filesChanged !== undefined &&
            // Not all tools report the number of changed lines.
            `${count(summary.filesChanged)}${lines > 0 ? ` (+${summary.additions ?? 0} −${summary.deletions ?? 0})` : ""}`,
        ],
      ]}
    />
  );
}
