import { Puzzle } from "lucide-react";
import { REGISTRY } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { Registry } from "../../api/types";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { LinkButton } from "../../components/LinkButton";
import { Stack } from "../../components/Stack";
import { formatDuration } from "../../lib/time";
import { DetailPage } from "../DetailPage";
import { useNames } from "../useNames";
import { AssetTable } from "./AssetTable";
import { registryStatus } from "./RegistryList";

export default function RegistryDetail() {
  const { namespace, name } = useNames();
  const query = useObject<Registry>(REGISTRY, namespace, name);
  return (
    <DetailPage kind={REGISTRY} query={query}>
      {(registry) => ({
        status: registryStatus(registry),
        sub: registry.checkInterval && `Checked every ${formatDuration(registry.checkInterval)}`,
        actions: (
          <LinkButton variant="primary" icon={<Puzzle size={15} />} to="assemble">
            Assemble
          </LinkButton>
        ),
        removes: [`the Registry ${name}: Agents and templates created from it do not change`],
        tabs: [{ id: "assets", label: "Assets", content: () => <Assets registry={registry} /> }],
      })}
    </DetailPage>
  );
}

function Assets({ registry }: { registry: Registry }) {
  return (
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
}
