import type { ReactNode } from "react";
import { ApiError } from "../api/error";
import { ErrorState } from "../components/ErrorState";
import { Login } from "./Login";
import { useLoginWhenEnded, useSession } from "./session";

/** Shows the page to signed-in users, otherwise the login. */
export function RequireSession({ children }: { children: ReactNode }) {
  const session = useSession();
  useLoginWhenEnded();
  if (session.data) return children;
  if (ApiError.is(session.error, 401)) return <Login />;
  if (session.error) {
    return (
      <main>
        <ErrorState error={session.error} onRetry={() => session.refetch()} />
      </main>
    );
  }
  return null;
}
