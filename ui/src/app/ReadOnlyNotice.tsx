import { Eye } from "lucide-react";
import { Notice } from "../components/Notice";
import { useSession } from "./session";

/** Says once why nothing can be changed, instead of letting a person find out button by button. */
export function ReadOnlyNotice() {
  const me = useSession().data;
  if (!me?.readOnly) return null;
  return (
    <Notice tone="idle" icon={<Eye size={15} aria-hidden="true" />}>
      {me.anonymous
        ? "You are not signed in: you can look at everything and change nothing."
        : "You can look, not change."}
    </Notice>
  );
}
