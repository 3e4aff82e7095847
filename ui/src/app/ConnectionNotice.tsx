import { useEffect, useState } from "react";
import type { StreamState } from "../api/stream";
import { Spinner } from "../components/Spinner";
import styles from "./ConnectionNotice.module.css";

/** Shorter interruptions are not reported. */
const PATIENCE_MS = 1_000;

/** Shown while the event stream is interrupted. */
export function ConnectionNotice({ state }: { state: StreamState }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (state !== "reconnecting") {
      setLate(false);
      return;
    }
    const timer = setTimeout(() => setLate(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [state]);
  if (!late) return null;
  return (
    <div className={styles.notice} role="status">
      <Spinner />
      Reconnecting: data may be out of date
    </div>
  );
}
