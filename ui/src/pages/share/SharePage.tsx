import { useQuery } from "@tanstack/react-query";
import { Link2Off } from "lucide-react";
import { useEffect } from "react";
import { useParams } from "react-router";
import { ApiError, errorOf } from "../../api/error";
import type { ShareInfo } from "../../api/types";
import { ThemeSwitch } from "../../app/ThemeSwitch";
import { Ago } from "../../components/Ago";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Stack } from "../../components/Stack";
import { TerminalView } from "../../terminal/TerminalView";
import styles from "./SharePage.module.css";

/** The shared terminal of an Agent, without the rest of the page. */
export default function SharePage() {
  const { token = "" } = useParams();
  const base = `/s/${encodeURIComponent(token)}`;
  const info = useQuery({
    queryKey: ["share", token],
    queryFn: async ({ signal }) => {
      const response = await fetch(`${base}/info`, { signal });
      if (!response.ok) throw await errorOf(response);
      return (await response.json()) as ShareInfo;
    },
    retry: false,
  });
  useEffect(() => {
    document.title = info.data ? `${info.data.agentName} · KubeOpenCode` : "KubeOpenCode";
  }, [info.data]);

  return (
    <main className={styles.page}>
      <h1 className="visually-hidden">Shared terminal</h1>
      {info.error ? (
        ApiError.is(info.error, 404) ? (
          <EmptyState title="Invalid link" icon={<Link2Off size={20} />}>
            The link expired or was revoked, or the Agent is not running. Ask for a new link.
          </EmptyState>
        ) : (
          <ErrorState error={info.error} onRetry={() => info.refetch()} />
        )
      ) : info.data ? (
        <>
          <div className={styles.head}>
            <div>
              <strong>{info.data.agentName}</strong>
              {info.data.profile && <span className="quiet"> {info.data.profile}</span>}
            </div>
            <Stack row gap={3}>
              {info.data.expiresAt && (
                <span className="quiet">
                  ends <Ago at={info.data.expiresAt} />
                </span>
              )}
              <ThemeSwitch />
            </Stack>
          </div>
          <div className={styles.terminal}>
            <TerminalView path={`${base}/terminal`} label={`Terminal of ${info.data.agentName}`} />
          </div>
        </>
      ) : (
        <SkeletonBlock lines={4} label="Opening the link" />
      )}
    </main>
  );
}
