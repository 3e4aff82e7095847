import { Search } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { TextInput } from "../components/TextInput";
import styles from "./FilterInput.module.css";

/** Debounce delay. */
const PAUSE_MS = 180;

export interface FilterInputProps {
  label: string;
  placeholder: string;
  value: string;
  onValue: (value: string) => void;
  /** Focused by the shortcut `/`. */
  main?: boolean;
}

/** A debounced filter. Typed text is kept while the filter is applied; a changed `value` replaces it. */
export function FilterInput({ label, placeholder, value, onValue, main }: FilterInputProps) {
  const [typed, setTyped] = useState<string | undefined>();
  const pause = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const emitted = useRef(value);

  useEffect(() => () => clearTimeout(pause.current), []);
  useEffect(() => {
    const fromOutside = value !== emitted.current;
    if (fromOutside) clearTimeout(pause.current);
    else if (pause.current !== undefined) return;
    emitted.current = value;
    pause.current = undefined;
    setTyped(undefined);
  }, [value]);

  const emit = (text: string) => {
    clearTimeout(pause.current);
    pause.current = undefined;
    emitted.current = text;
    onValue(text);
  };
  const type = (text: string) => {
    setTyped(text);
    clearTimeout(pause.current);
    pause.current = setTimeout(() => emit(text), PAUSE_MS);
  };
  return (
    <div className={styles.filter}>
      <Search size={14} aria-hidden="true" />
      <TextInput
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={typed ?? value}
        onValue={type}
        data-filter={main ? "" : undefined}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          setTyped("");
          emit("");
          event.currentTarget.blur();
        }}
      />
    </div>
  );
}
