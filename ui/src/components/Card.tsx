import { type ReactNode, useId } from "react";
import styles from "./Card.module.css";
import { classes } from "./classes";
import surface from "./surface.module.css";

export interface CardProps {
  title: string;
  tools?: ReactNode;
  /** No padding around the content (tables, logs). */
  flush?: boolean;
  className?: string;
  children: ReactNode;
}

/** A titled section of a page. */
export function Card({ title, tools, flush, className, children }: CardProps) {
  const heading = useId();
  return (
    <section className={classes(surface.raised, styles.card, className)} aria-labelledby={heading}>
      <header className={styles.head}>
        <h2 id={heading}>{title}</h2>
        {tools && <div className={styles.tools}>{tools}</div>}
      </header>
      <div className={classes(styles.body, flush && styles.flush)}>{children}</div>
    </section>
  );
}
