import { Search } from "lucide-react";
import { useEffect, useRef, useState } from "react";
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

/** A filter that is told after a pause in typing. What is typed meanwhile stays, what comes from outside replaces it. */
export function FilterInput({ label, placeholder, value, onValue, main }: FilterInputProps) {
  const [typed, setTyped] = useState<string | undefined>();
  const pause = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const told = useRef(value);

  useEffect(() => () => clearTimeout(pause.current), []);
  useEffect(() => {
    const fromOutside = value !== told.current;
    if (fromOutside) clearTimeout(pause.current);
    else if (pause.current !== undefined) return;
    told.current = value;
    pause.current = undefined;
    setTyped(undefined);
  }, [value]);

  const tell = (text: string) => {
    clearTimeout(pause.current);
    pause.current = undefined;
    told.current = text;
    onValue(text);
  };
  const type = (text: string) => {
    setTyped(text);
    clearTimeout(pause.current);
    pause.current = setTimeout(() => tell(text), PAUSE_MS);
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
          tell("");
          event.currentTarget.blur();
        }}
      />
    </div>
  );
}
