import { ChevronFirst, ChevronLast, ChevronLeft, ChevronRight } from "lucide-react";
import { classes } from "../components/classes";
import { IconButton } from "../components/IconButton";
import surface from "../components/surface.module.css";
import { count } from "../lib/format";
import styles from "./ResourceTable.module.css";

export interface PagerProps {
  first: number;
  /** Number of visible rows. */
  fits: number;
  /** Absent while unknown. */
  total: number | undefined;
  onGo: (row: number) => void;
}

/** Position in the list, and paging buttons. */
export function Pager({ first, fits, total, onGo }: PagerProps) {
  const end = total === undefined ? 0 : Math.min(total, first + fits);
  const atStart = first <= 0;
  const atEnd = total === undefined || end >= total;
  return (
    <div className={classes(surface.foot, styles.foot)}>
      <span>{total === undefined ? "Loading" : `${count(first + 1)}–${count(end)} of ${count(total)}`}</span>
      <div className={styles.pager}>
        <IconButton
          small
          label="First rows"
          icon={<ChevronFirst size={15} />}
          disabled={atStart}
          onClick={() => onGo(0)}
        />
        <IconButton
          small
          label="Previous rows"
          icon={<ChevronLeft size={15} />}
          disabled={atStart}
          onClick={() => onGo(Math.max(0, first - fits))}
        />
        <IconButton
          small
          label="Next rows"
          icon={<ChevronRight size={15} />}
          disabled={atEnd}
          onClick={() => onGo(Math.min((total ?? 1) - 1, first + fits))}
        />
        <IconButton
          small
          label="Last rows"
          icon={<ChevronLast size={15} />}
          disabled={atEnd}
          onClick={() => onGo(Math.max(0, (total ?? 1) - 1))}
        />
      </div>
    </div>
  );
}
