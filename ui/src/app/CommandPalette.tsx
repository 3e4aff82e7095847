import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { call } from "../api/client";
import { keys } from "../api/keys";
import type { Found } from "../api/types";
import { classes } from "../components/classes";
import { Spinner } from "../components/Spinner";
import surface from "../components/surface.module.css";
import { TextInput } from "../components/TextInput";
import styles from "./CommandPalette.module.css";
import { commandsFor, commandsOf } from "./commands";

/** Pause in typing before the server is searched. */
const PAUSE_MS = 150;

/** A text once typing has paused. */
function usePaused(text: string): string {
  const [paused, setPaused] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setPaused(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return paused;
}

/** Opens any page, action or object by name. */
export function CommandPalette({ open, onClose }: { open: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && dialog.current && !dialog.current.open) dialog.current.showModal();
  }, [open]);
  if (!open) return null;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog, a click beside it is an addition.
    <dialog
      ref={dialog}
      className={classes(surface.window, styles.palette)}
      aria-label="Go to"
      onClose={onClose}
      onCancel={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <Choices onClose={onClose} />
    </dialog>
  );
}

function Choices({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const wanted = usePaused(text.trim());
  const search = useQuery({
    queryKey: keys.search(wanted),
    queryFn: ({ signal }) => call<{ results: Found[] }>("/search", { query: { text: wanted }, signal }),
    enabled: wanted !== "",
    placeholderData: keepPreviousData,
    retry: false,
  });
  const typed = text.trim() !== "";
  const found = typed ? commandsOf(search.data?.results ?? []) : [];
  const commands = [...commandsFor(text), ...found];
  const searching = typed && (wanted !== text.trim() || search.isFetching);
  const at = Math.min(active, commands.length - 1);
  const chosen = commands[at];

  useEffect(() => {
    list.current?.querySelector(`[aria-selected=true]`)?.scrollIntoView?.({ block: "nearest" });
  });
  const go = (to: string) => {
    onClose();
    navigate(to);
  };
  const onKey = (event: KeyboardEvent) => {
    const last = commands.length - 1;
    const next: Record<string, number> = {
      ArrowDown: at >= last ? 0 : at + 1,
      ArrowUp: at <= 0 ? last : at - 1,
      PageDown: Math.min(last, at + 8),
      PageUp: Math.max(0, at - 8),
    };
    if (event.key === "Enter" && !event.nativeEvent.isComposing) {
      if (chosen) go(chosen.to);
    } else if (event.key in next) setActive(next[event.key] ?? 0);
    else return;
    event.preventDefault();
  };

  return (
    <>
      <div className={styles.field}>
        <TextInput
          autoFocus
          role="combobox"
          aria-label="Page, action or name of an object"
          aria-expanded={commands.length > 0}
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          aria-activedescendant={chosen && `${id}-${chosen.id}`}
          placeholder="Go to a page, an action or an object"
          value={text}
          onValue={(value) => {
            setText(value);
            setActive(0);
          }}
          onKeyDown={onKey}
        />
        {searching && <Spinner />}
      </div>
      <div className={styles.list} role="listbox" id={`${id}-list`} aria-label="Results" ref={list}>
        {commands.map(({ id: command, label, detail, icon: Icon, to }, i) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are handled by the input, which keeps the focus.
          // biome-ignore lint/a11y/useFocusableInteractive: as above.
          <div
            key={command}
            id={`${id}-${command}`}
            role="option"
            aria-selected={i === at}
            className={styles.option}
            onClick={() => go(to)}
            onMouseMove={() => setActive(i)}
          >
            {Icon && <Icon size={15} aria-hidden="true" />}
            <span className={styles.label}>{label}</span>
            <span className={styles.detail}>{detail}</span>
          </div>
        ))}
      </div>
      <p className={commands.length === 0 ? styles.note : "visually-hidden"} role="status">
        {search.error && typed
          ? `Objects cannot be searched: ${search.error.message}`
          : searching
            ? "Searching …"
            : commands.length === 0
              ? "No page, action or object matches."
              : `${commands.length} results`}
      </p>
    </>
  );
}
