import { Plus } from "lucide-react";
import { Link } from "react-router";
import { pageOf } from "../../api/kinds";
import { useSecrets } from "../../api/secrets";
import { Page } from "../../app/Page";
import { Ago } from "../../components/Ago";
import { EmptyState } from "../../components/EmptyState";
import { LinkButton } from "../../components/LinkButton";
import { Loaded } from "../../components/Loaded";
import { PageHeader } from "../../components/PageHeader";
import { SimpleTable } from "../../components/SimpleTable";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Tag } from "../../components/Tag";
import { useFormDefaults } from "../../forms/formDefaults";

/** The Secrets of a namespace. Values are never shown. */
export default function SecretList() {
  const defaults = useFormDefaults();
  return defaults ? <Secrets namespace={defaults.namespace} /> : <SkeletonBlock lines={8} label="Loading Secrets" />;
}

function Secrets({ namespace }: { namespace: string }) {
  const secrets = useSecrets(namespace);
  const create = (
    <LinkButton variant="primary" icon={<Plus size={15} />} to={`/secrets/create?namespace=${namespace}`}>
      New Secret
    </LinkButton>
  );
  return (
    <Page>
      <PageHeader
        title="Secrets"
        sub={`Keys and tokens of Agents in namespace ${namespace}. Values can be replaced and are never shown.`}
        actions={create}
      />
      <Loaded query={secrets} label="Secrets">
        {(items) =>
          items.length === 0 ? (
            <EmptyState title="No Secrets yet" action={create}>
              There is none in namespace {namespace}.
            </EmptyState>
          ) : (
            <SimpleTable
              label="Secrets"
              head={["Name", "Keys", "Type", "Age"]}
              wide={["Type"]}
              rows={items.map((secret) => ({
                key: secret.name,
                cells: [
                  <Link key="name" to={pageOf("Secret", namespace, secret.name) ?? ""}>
                    {secret.name}
                  </Link>,
                  secret.keys.map((key) => <Tag key={key}>{key}</Tag>),
                  secret.type,
                  <Ago key="age" at={secret.createdAt} />,
                ],
              }))}
            />
          )
        }
      </Loaded>
    </Page>
  );
}
