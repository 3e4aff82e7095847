import { Check } from "lucide-react";
import { classes } from "../../components/classes";
import styles from "./Setup.module.css";

export interface StepsProps {
  titles: string[];
  current: number;
  /** Returns to an earlier step; unset when that is no longer possible. */
  onBack?: (step: number) => void;
}

/** The progress of the setup. */
export function Steps({ titles, current, onBack }: StepsProps) {
  return (
    <ol className={styles.steps} aria-label="Steps">
      {titles.map((title, at) => {
        const mark = (
          <>
            <span className={styles.number} aria-hidden="true">
              {at < current ? <Check size={13} /> : at + 1}
            </span>
            {title}
          </>
        );
        return (
          <li
            key={title}
            className={classes(styles.step, at < current && styles.done)}
            aria-current={at === current ? "step" : undefined}
          >
            {at < current && onBack ? (
              <button type="button" className={styles.back} onClick={() => onBack(at)}>
                {mark}
              </button>
            ) : (
              mark
            )}
          </li>
        );
      })}
    </ol>
  );
}
