import { Search } from "lucide-react";
import { useEffect, useState } from "react";
import { TextInput } from "../components/TextInput";
import styles from "./FilterInput.module.css";

/** Long enough that typing does not ask for every letter, short enough to feel live. */
const PAUSE_MS = 180;

export interface FilterInputProps {
  label: string;
  placeholder: string;
  value: string;
  onValue: (value: string) => void;
  /** The one that `/` puts the cursor into. */
  main?: boolean;
}

export function FilterInput({ label, placeholder, value, onValue, main }: FilterInputProps) {
  const [text, setText] = useState(value);
  // What comes from outside (back button, "clear") replaces what was typed.
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onValue(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, value, onValue]);
  return (
    <div className={styles.filter}>
      <Search size={14} aria-hidden="true" />
      <TextInput
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={text}
        onValue={setText}
        data-filter={main ? "" : undefined}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            onValue("");
            event.currentTarget.blur();
          }
        }}
      />
    </div>
  );
}
