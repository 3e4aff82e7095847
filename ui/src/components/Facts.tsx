import { Fragment, type ReactNode } from "react";
import styles from "./Facts.module.css";

/** Names and values; those without a value are left out. */
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
