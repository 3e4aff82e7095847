import { useEffect, useState } from "react";
import type { StreamState } from "../api/stream";
import { Spinner } from "../components/Spinner";
import styles from "./ConnectionNotice.module.css";

/** A short break is not worth a word. */
const PATIENCE_MS = 1_000;

/** Says that the page is not live at the moment; goes away by itself. */
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
      Reconnecting: what you see may be old
    </div>
  );
}
