import { Fragment, type ReactNode } from "react";
import styles from "./Facts.module.css";

/** A list of names and values; entries without a value are omitted. */
export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return (
    <dl className={styles.facts}>
      {known.map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}
