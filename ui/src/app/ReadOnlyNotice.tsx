import { Eye } from "lucide-react";
import { Notice } from "../components/Notice";
import { useSession } from "./session";

/** Explains once why all actions are disabled. */
export function ReadOnlyNotice() {
  const me = useSession().data;
  if (!me?.readOnly) return null;
  return (
    <Notice tone="idle" icon={<Eye size={15} aria-hidden="true" />}>
      {me.anonymous ? "Not signed in: access is read-only." : "Access is read-only."}
    </Notice>
  );
}
