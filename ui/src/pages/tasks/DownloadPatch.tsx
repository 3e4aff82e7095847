import { useMutation } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { ApiError } from "../../api/error";
import { fetchPatch } from "../../api/results";
import type { Task, TaskChanges } from "../../api/types";
import { Button } from "../../components/Button";
import { toast } from "../../components/toast";

/** The patch from what the page has; `undefined` if a part of it is missing. */
export function wholePatch({ files, fileCount }: TaskChanges): string | undefined {
  const isWhole = files.length === fileCount && files.every((file) => !file.cut && !file.binary && file.patch !== "");
  return isWhole ? files.map((file) => `${file.patch.replace(/\n$/, "")}\n`).join("") : undefined;
}

function save(patch: Blob, name: string): void {
  const address = URL.createObjectURL(patch);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

/** Downloads the whole change. Runs that stored no patch have it only if the page shows all of it. */
export function DownloadPatch({ task, changes }: { task: Task; changes: TaskChanges }) {
  const download = useMutation({
    mutationFn: async () => {
      try {
        return await fetchPatch(task);
      } catch (error) {
        const shown = ApiError.is(error, 404) ? wholePatch(changes) : undefined;
        if (shown === undefined) throw error;
        return new Blob([shown], { type: "text/x-diff" });
      }
    },
    onSuccess: (patch) => save(patch, `${task.name}-${task.runEpoch ?? 1}.patch`),
    onError: toast.failed,
  });
  return (
    <Button small icon={<Download size={14} />} busy={download.isPending} onClick={() => download.mutate()}>
      Download patch
    </Button>
  );
}
