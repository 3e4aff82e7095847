import type { UseQueryResult } from "@tanstack/react-query";
import type { Kind } from "../api/kinds";
import { Page } from "../app/Page";
import { ErrorState } from "../components/ErrorState";
import { LinkButton } from "../components/LinkButton";
import { PageHeader } from "../components/PageHeader";
import { SkeletonBlock } from "../components/SkeletonBlock";

/** The detail page while the object is loading, or on errors. */
export function DetailState({ kind, name, query }: { kind: Kind; name: string; query: UseQueryResult<unknown> }) {
  return (
    <Page>
      <PageHeader title={name} crumbs={[{ label: kind.many, to: kind.list }]} />
      {query.error ? (
        <ErrorState
          error={query.error}
          onRetry={() => query.refetch()}
          action={<LinkButton to={kind.list}>All {kind.many}</LinkButton>}
        />
      ) : (
        <SkeletonBlock lines={10} label={`Loading ${kind.one} ${name}`} />
      )}
    </Page>
  );
}
