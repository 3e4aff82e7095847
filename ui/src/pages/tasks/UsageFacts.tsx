import type { Task } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { Facts } from "../../components/Facts";
import { allTokens, count, money } from "../../lib/format";
import { isFinished } from "../../lib/phase";

/** What the run took: tokens, money, messages, changed files. */
export function UsageFacts({ task }: { task: Task }) {
  const summary = task.session?.summary;
  const tokens = task.usage?.tokens ?? summary?.tokenUsage;
  const lines = (summary?.additions ?? 0) + (summary?.deletions ?? 0);
  if (!tokens && !summary) {
    return (
      <EmptyState small title={isFinished(task.phase) ? "Nothing counted" : "Nothing counted yet"}>
        {isFinished(task.phase)
          ? "The run ended before a model answered."
          : "Tokens and cost appear when it has ended."}
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
            // Not every tool says how many lines it changed.
            `${count(summary.filesChanged)}${lines > 0 ? ` (+${summary.additions ?? 0} −${summary.deletions ?? 0})` : ""}`,
        ],
      ]}
    />
  );
}
