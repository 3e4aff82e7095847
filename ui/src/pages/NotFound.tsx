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
        title="Page not found"
        icon={<Compass size={20} />}
        action={
          <LinkButton variant="primary" to="/">
            Go to the dashboard
          </LinkButton>
        }
      >
        Check the address: the link may be outdated.
      </EmptyState>
    </Page>
  );
}
