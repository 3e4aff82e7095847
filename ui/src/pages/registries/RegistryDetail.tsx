import { MoreHorizontal, Puzzle, Trash2 } from "lucide-react";
import { useState } from "react";
import { REGISTRY } from "../../api/kinds";
import { useObject } from "../../api/objects";
import { useRights } from "../../api/rights";
import type { Registry } from "../../api/types";
import { Page } from "../../app/Page";
import { Badge } from "../../components/Badge";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { LinkButton } from "../../components/LinkButton";
import { Menu } from "../../components/Menu";
import { PageHeader } from "../../components/PageHeader";
import { Stack } from "../../components/Stack";
import { Tabs } from "../../components/Tabs";
import { YamlPanel } from "../../editor/YamlPanel";
import { DeleteDialog } from "../DeleteDialog";
import { DetailState } from "../DetailState";
import { useNames } from "../useNames";
import { useTab } from "../useTab";
import { AssetTable } from "./AssetTable";
import { registryStatus } from "./RegistryList";

export default function RegistryDetail() {
  const { namespace, name } = useNames();
  const [tab, setTab] = useTab("assets");
  const [deleting, setDeleting] = useState(false);
  const may = useRights(namespace);
  const query = useObject<Registry>(REGISTRY, namespace, name);
  const registry = query.data;
  if (!registry || query.error) return <DetailState kind={REGISTRY} name={name} query={query} />;
  const assets = (
    <Stack gap={4}>
      <Card title="Images" flush>
        <AssetTable
          label="Images"
          assets={registry.images}
          source={(image) => <code>{image.image}</code>}
          version={(image) => <code>{image.digest?.slice(0, 19) ?? "–"}</code>}
        />
      </Card>
      <Card title="Skills" flush>
        <AssetTable
          label="Skills"
          assets={registry.skills}
          source={(skill) => <code>{skill.git?.repository}</code>}
          version={(skill) => <code>{skill.latestCommit?.slice(0, 12) ?? "–"}</code>}
        />
      </Card>
      <Card title="Plugins" flush>
        <AssetTable
          label="Plugins"
          assets={registry.plugins}
          source={(plugin) => <code>{plugin.plugin?.name}</code>}
          version={(plugin) => plugin.resolvedVersion ?? "–"}
        />
      </Card>
      <Card title="Conditions">
        <ConditionList conditions={registry.conditions} />
      </Card>
    </Stack>
  );
  return (
    <Page>
      <PageHeader
        title={registry.name}
        badge={<Badge status={registryStatus(registry)} />}
        crumbs={[{ label: "Registries", to: "/registries" }, { label: registry.namespace }]}
        sub={registry.checkInterval && `Checked every ${registry.checkInterval}`}
        actions={
          <>
            <LinkButton look="primary" icon={<Puzzle size={15} />} to="assemble">
              Assemble
            </LinkButton>
            <Menu
              label="More actions"
              icon={<MoreHorizontal size={16} />}
              items={[
                {
                  label: "Delete",
                  icon: <Trash2 size={15} />,
                  danger: true,
                  disabled: !may("delete registries"),
                  onSelect: () => setDeleting(true),
                },
              ]}
            />
          </>
        }
      />
      <Tabs
        label="Parts of the Registry"
        selected={tab}
        onSelect={setTab}
        tabs={[
          { id: "assets", label: "Assets", content: () => assets },
          { id: "yaml", label: "YAML", content: () => <YamlPanel kind={REGISTRY} namespace={namespace} name={name} /> },
        ]}
      />
      <DeleteDialog
        kind={REGISTRY}
        namespace={namespace}
        name={name}
        open={deleting}
        leaveTo="/registries"
        consequences={[`the Registry ${name}: Agents and templates made from it stay as they are`]}
        onClose={() => setDeleting(false)}
      />
    </Page>
  );
}
