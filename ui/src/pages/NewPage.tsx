import type { ReactNode } from "react";
import type { Kind } from "../api/kinds";
import { Page } from "../app/Page";
import { PageHeader } from "../components/PageHeader";
import { SkeletonBlock } from "../components/SkeletonBlock";
import { type Start, useStart } from "../forms/start";

export interface NewPageProps {
  kind: Kind;
  /** Shown as soon as it is known where the object starts. */
  children: (start: Start) => ReactNode;
}

/** The page on which an object is made. */
export function NewPage({ kind, children }: NewPageProps) {
  const start = useStart();
  return (
    <Page>
      <PageHeader title={`New ${kind.one}`} crumbs={[{ label: kind.many, to: kind.list }]} sub={kind.about} />
      {start ? children(start) : <SkeletonBlock lines={10} label="Loading the form" />}
    </Page>
  );
}
