import type { ReactNode } from "react";
import type { Kind } from "../api/kinds";
import { Page } from "../app/Page";
import { PageHeader } from "../components/PageHeader";
import { SkeletonBlock } from "../components/SkeletonBlock";
import { type FormDefaults, useFormDefaults } from "../forms/formDefaults";

export interface NewPageProps {
  kind: Kind;
  /** Rendered when the defaults are loaded. */
  children: (defaults: FormDefaults) => ReactNode;
}

/** The page that creates an object. */
export function NewPage({ kind, children }: NewPageProps) {
  const defaults = useFormDefaults();
  return (
    <Page>
      <PageHeader title={`New ${kind.one}`} crumbs={[{ label: kind.many, to: kind.list }]} sub={kind.about} />
      {defaults ? children(defaults) : <SkeletonBlock lines={10} label="Loading the form" />}
    </Page>
  );
}
