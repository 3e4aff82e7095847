import { type ReactNode, useEffect } from "react";
import { Link } from "react-router";
import styles from "./PageHeader.module.css";
import { Stack } from "./Stack";

export interface Crumb {
  label: string;
  to?: string;
}

export interface PageHeaderProps {
  title: string;
  /** Name of the object, shown below the title if it differs. */
  name?: string;
  badge?: ReactNode;
  crumbs?: Crumb[];
  sub?: ReactNode;
  actions?: ReactNode;
}

/** The header of a page; also sets the document title. */
export function PageHeader({ title, name, badge, crumbs, sub, actions }: PageHeaderProps) {
  useEffect(() => {
    document.title = `${title} · KubeOpenCode`;
  }, [title]);
  return (
    <header className={styles.header}>
      <div className={styles.titles}>
        {crumbs && (
          <nav className={styles.crumbs} aria-label="Breadcrumb">
            {crumbs.map((crumb, i) => (
              <span key={crumb.label}>
                {i > 0 && <span aria-hidden="true">/ </span>}
                {crumb.to ? <Link to={crumb.to}>{crumb.label}</Link> : crumb.label}
              </span>
            ))}
          </nav>
        )}
        <h1>
          {title}
          {badge}
          {name && name !== title && <code className={styles.name}>{name}</code>}
        </h1>
        {sub && <div className={styles.sub}>{sub}</div>}
      </div>
      {actions && (
        <Stack row gap={2}>
          {actions}
        </Stack>
      )}
    </header>
  );
}
