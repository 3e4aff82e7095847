import { X } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "../components/Button";
import styles from "./FilterBar.module.css";
import { FilterInput } from "./FilterInput";
import type { ListControls } from "./listState";
import { usePhone } from "./usePhone";

/** The filters above a list: name, page-specific filters, labels. */
export function FilterBar({ list, children }: { list: ListControls; children?: ReactNode }) {
  const labels = list.filters.labelSelector ?? "";
  // On a phone only active filters are shown, to save space.
  const phone = usePhone();
  const roomForLabels = !phone || labels !== "";
  const filtered = Object.keys(list.filters).length > 0;
  return (
    <search className={styles.bar}>
      <FilterInput
        main
        label="Filter by name"
        placeholder={phone ? "Filter by name" : "Filter by name  ( / )"}
        value={list.filters.name ?? ""}
        onValue={(value) => list.setFilter("name", value)}
      />
      {children}
      {roomForLabels && (
        <FilterInput
          label="Filter by labels"
          placeholder="Labels: team=web,!old"
          value={labels}
          onValue={(value) => list.setFilter("labelSelector", value)}
        />
      )}
      {filtered && (
        <Button variant="plain" icon={<X size={14} />} onClick={list.clearFilters}>
          Clear
        </Button>
      )}
    </search>
  );
}
