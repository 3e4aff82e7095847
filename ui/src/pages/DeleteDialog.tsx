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
  /** What is removed, one line each. */
  consequences: string[];
  onClose: () => void;
  /** Path to open afterwards; by default the page does not change. */
  leaveTo?: string;
}

/** Asks for confirmation and lists what is deleted. */
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
        // A promise, not a callback: the event stream may report the deletion first, which unmounts this dialog.
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
      This cannot be undone. The following is removed from namespace {namespace}:
    </ConfirmDialog>
  );
}
