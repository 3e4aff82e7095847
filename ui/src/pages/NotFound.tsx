import { Compass } from "lucide-react";
import { useLocation } from "react-router";
import { Page } from "../app/Page";
import { EmptyState } from "../components/EmptyState";
import { LinkButton } from "../components/LinkButton";
import { PageHeader } from "../components/PageHeader";

export function NotFound() {
  const { pathname } = useLocation();
  return (
    <Page>
      <PageHeader title="Page not found" />
      <EmptyState
        title="No page at this address"
        icon={<Compass size={20} />}
        action={
          <LinkButton variant="primary" to="/">
            Go to the dashboard
          </LinkButton>
        }
      >
        {pathname} does not exist. The link may be outdated.
      </EmptyState>
    </Page>
  );
}
