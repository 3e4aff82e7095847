import { RotateCw } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useDark } from "../app/theme";
import { Button } from "../components/Button";
import { classes } from "../components/classes";
import surface from "../components/surface.module.css";
import type { Connection, TerminalState } from "./connect";
import styles from "./TerminalView.module.css";

/** A terminal of an Agent, loaded on first use. */
export function TerminalView({ path, label }: { path: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  const dark = useDark();
  const [attempt, setAttempt] = useState(0);
  const [status, setStatus] = useState<TerminalState>({ state: "connecting" });

  const connection = useRef<Connection | undefined>(undefined);

  // biome-ignore lint/correctness/useExhaustiveDependencies: only an attempt opens a new connection, not a new theme.
  useEffect(() => {
    let gone = false;
    void import("./connect").then(({ connectTerminal }) => {
      if (!gone && host.current) connection.current = connectTerminal(host.current, path, dark, setStatus);
    });
    return () => {
      gone = true;
      connection.current?.end();
      connection.current = undefined;
      host.current?.replaceChildren();
    };
  }, [path, attempt]);
  useEffect(() => connection.current?.paint(dark), [dark]);

  return (
    <section className={classes(surface.framed, styles.frame)} aria-label={label}>
      <div className={styles.host} ref={host} />
      <div className={classes(surface.foot, styles.bar)}>
        <span role="status">
          {status.state === "open"
            ? "Connected. Input is sent to the agent."
            : status.state === "ended"
              ? status.message
              : (status.message ?? "Connecting")}
        </span>
        {status.state === "ended" && (
          <Button small icon={<RotateCw size={14} />} onClick={() => setAttempt(attempt + 1)}>
            Reconnect
          </Button>
        )}
      </div>
    </section>
  );
}
