import type { Identified } from "../api/types";
import type { Column } from "./columns";
import type { Selection } from "./selection";
import type { Pages } from "./usePages";

/** Title of the column with the checkboxes. */
export const SELECT = "Select";

export function selectColumn<T extends Identified>(selection: Selection<T>): Column<T> {
  return {
    title: SELECT,
    width: "20px",
    phone: "lead",
    cell: (item) => (
      <input
        type="checkbox"
        aria-label={`Select ${item.name}`}
        checked={selection.has(item)}
        onChange={(event) => selection.set([item], event.target.checked)}
      />
    ),
  };
}

/** Selects all loaded rows, or none of them. */
export function SelectAll<T extends Identified>({ pages, selection }: { pages: Pages<T>; selection: Selection<T> }) {
  const loaded = pages.loaded();
  const chosen = loaded.filter(selection.has).length;
  return (
    <input
      type="checkbox"
      aria-label={`Select ${loaded.length} loaded rows`}
      title={`Select ${loaded.length} loaded rows`}
      disabled={loaded.length === 0}
      checked={chosen > 0 && chosen === loaded.length}
      ref={(element) => {
        if (element) element.indeterminate = chosen > 0 && chosen < loaded.length;
      }}
      onChange={(event) => selection.set(loaded, event.target.checked)}
    />
  );
}
