import { useNavigate } from "react-router";
import type { Kind } from "../api/kinds";
import { useDelete } from "../api/objects";
import { ConfirmDialog } from "../components/ConfirmDialog";
import { toast } from "../components/toast";

export interface DeleteDialogProps {
  kind: Kind;
  namespace: string;
  name: string;
  open: boolean;
  /** What goes with it, one line each. */
  consequences: string[];
  onClose: () => void;
  /** Where to go afterwards; stays when left out. */
  leaveTo?: string;
}

/** Asks before a deletion and says what goes. */
export function DeleteDialog({ kind, namespace, name, open, consequences, onClose, leaveTo }: DeleteDialogProps) {
  const remove = useDelete(kind);
  const navigate = useNavigate();
  return (
    <ConfirmDialog
      title={`Delete ${kind.one} ${name}?`}
      open={open}
      confirm={`Delete ${kind.one}`}
      danger
      busy={remove.isPending}
      error={remove.error}
      consequences={consequences}
      onClose={() => {
        remove.reset();
        onClose();
      }}
      onConfirm={() =>
        // A promise, not a callback: the feed may tell of the end before the answer comes, and take this dialog away.
        remove.mutateAsync({ namespace, name }).then(
          () => {
            onClose();
            toast.done(`${kind.one} ${name} is being deleted.`);
            if (leaveTo) navigate(leaveTo);
          },
          () => {},
        )
      }
    >
      This cannot be undone. It removes from namespace {namespace}:
    </ConfirmDialog>
  );
}
