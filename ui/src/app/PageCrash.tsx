import { RotateCw } from "lucide-react";
import { useRouteError } from "react-router";
import { Button } from "../components/Button";
import { EmptyState } from "../components/EmptyState";

/** Shown when rendering fails. */
export function PageCrash() {
  const error = useRouteError();
  return (
    <EmptyState
      title="This page crashed"
      action={
        <Button icon={<RotateCw size={14} />} onClick={() => window.location.reload()}>
          Reload
        </Button>
      }
    >
      {error instanceof Error ? error.message : "Unexpected error."} Changes on the server are not affected.
    </EmptyState>
  );
}
