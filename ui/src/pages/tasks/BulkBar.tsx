import { RotateCcw, Square, Trash2, X } from "lucide-react";
import { useState } from "react";
import type { Task } from "../../api/types";
import { Button } from "../../components/Button";
import { classes } from "../../components/classes";
import { IconButton } from "../../components/IconButton";
import surface from "../../components/surface.module.css";
import { count } from "../../lib/format";
import type { Selection } from "../../list/selection";
import styles from "./BulkBar.module.css";
import { BulkDialog } from "./BulkDialog";
import { applicable, type BulkAction } from "./bulk";

/** The actions on the selected Tasks. */
export function BulkBar({ selection }: { selection: Selection<Task> }) {
  const [asked, setAsked] = useState<{ action: BulkAction; tasks: Task[] } | undefined>();
  const tasks = selection.items;
  const action = (name: BulkAction, label: string, icon: React.ReactNode) => (
    <Button
      small
      icon={icon}
      variant={name === "delete" ? "danger" : "default"}
      disabled={applicable(name, tasks).length === 0}
      onClick={() => setAsked({ action: name, tasks })}
    >
      {label}
    </Button>
  );
  return (
    <>
      {tasks.length > 0 && (
        <div className={classes(surface.floating, styles.bar)} role="toolbar" aria-label="Selected Tasks">
          <span role="status">{count(tasks.length)} selected</span>
          {action("stop", "Stop", <Square size={13} />)}
          {action("rerun", "Run again", <RotateCcw size={13} />)}
          {action("delete", "Delete", <Trash2 size={13} />)}
          <IconButton small label="Clear the selection" icon={<X size={14} />} onClick={selection.clear} />
        </div>
      )}
      {asked && (
        <BulkDialog
          action={asked.action}
          tasks={asked.tasks}
          onDone={(done) => selection.set(done, false)}
          onClose={() => setAsked(undefined)}
        />
      )}
    </>
  );
}
