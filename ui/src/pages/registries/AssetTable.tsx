import type { ReactNode } from "react";
import type { Asset } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { EmptyState } from "../../components/EmptyState";
import { SimpleTable } from "../../components/SimpleTable";
import { Stack } from "../../components/Stack";
import { Tag } from "../../components/Tag";
import { readyStatus } from "../../lib/phase";

export interface AssetTableProps<T extends Asset> {
  label: string;
  assets: T[] | undefined;
  source: (asset: T) => ReactNode;
  version: (asset: T) => ReactNode;
}

/** Images, skills or plugins of a Registry with their check results. */
export function AssetTable<T extends Asset>({ label, assets, source, version }: AssetTableProps<T>) {
  if (!assets || assets.length === 0) return <EmptyState small title={`No ${label.toLowerCase()}`} />;
  return (
    <SimpleTable
      label={label}
      head={["Name", "Status", "Source", "Version", "Checked"]}
      wide={["Source", "Version"]}
      rows={assets.map((asset) => ({
        key: asset.name,
        cells: [
          <Stack key="name" gap={1}>
            <strong>{asset.name}</strong>
            {asset.metadata?.description && <span className="quiet">{asset.metadata.description}</span>}
            {asset.metadata?.tags?.length ? (
              <Stack row gap={1}>
                {asset.metadata.tags.map((tag) => (
                  <Tag key={tag}>{tag}</Tag>
                ))}
              </Stack>
            ) : null}
          </Stack>,
          <Badge
            key="status"
            status={readyStatus(asset.phase === undefined ? undefined : asset.phase === "Ready")}
            title={asset.message}
          />,
          source(asset),
          version(asset),
          <Ago key="checked" at={asset.lastChecked} />,
        ],
      }))}
    />
  );
}
