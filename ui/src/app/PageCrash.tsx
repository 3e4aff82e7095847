import { RotateCw } from "lucide-react";
import { useRouteError } from "react-router";
import { Button } from "../components/Button";
import { EmptyState } from "../components/EmptyState";

/** A fault in the page itself: say so and offer the way out, never a white screen. */
export function PageCrash() {
  const error = useRouteError();
  return (
    <EmptyState
      title="This page broke"
      action={
        <Button icon={<RotateCw size={14} />} onClick={() => window.location.reload()}>
          Load it again
        </Button>
      }
    >
      {error instanceof Error ? error.message : "Something unexpected happened."} Nothing that you did on the server is
      lost.
    </EmptyState>
  );
}
