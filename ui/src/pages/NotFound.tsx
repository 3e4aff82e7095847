import { Compass } from "lucide-react";
import { Page } from "../app/Page";
import { EmptyState } from "../components/EmptyState";
import { LinkButton } from "../components/LinkButton";
import { PageHeader } from "../components/PageHeader";

export function NotFound() {
  return (
    <Page>
      <PageHeader title="Not found" />
      <EmptyState
        title="There is no such page"
        icon={<Compass size={20} />}
        action={
          <LinkButton look="primary" to="/">
            Go to the dashboard
          </LinkButton>
        }
      >
        The address may have a typing error, or the link is old.
      </EmptyState>
    </Page>
  );
}
