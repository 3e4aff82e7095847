import { X } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "../components/Button";
import styles from "./FilterBar.module.css";
import { FilterInput } from "./FilterInput";
import type { ListControls } from "./listState";
import { usePhone } from "./usePhone";

export interface FilterBarProps {
  list: ListControls;
  /** Whether the first filter also finds titles. */
  search?: boolean;
  children?: ReactNode;
}

/** The filters above a list: name, page-specific filters, labels. */
export function FilterBar({ list, search, children }: FilterBarProps) {
  const labels = list.filters.labelSelector ?? "";
  // On a phone only active filters are shown, to save space.
  const phone = usePhone();
  const roomForLabels = !phone || labels !== "";
  const parameter = search ? "search" : "name";
  const label = search ? "Filter by title or name" : "Filter by name";
  const filtered = Object.keys(list.filters).length > 0;
  return (
    <search className={styles.bar}>
      <FilterInput
        main
        label={label}
        placeholder={phone ? (search ? "Title or name" : label) : `${label}  ( / )`}
        value={list.filters[parameter] ?? ""}
        onValue={(value) => list.setFilter(parameter, value)}
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
