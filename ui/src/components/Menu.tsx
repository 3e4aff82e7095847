import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { Button } from "./Button";
import { classes } from "./classes";

import styles from "./Menu.module.css";
import surface from "./surface.module.css";

export interface MenuItem {
  label: string;
  icon?: ReactNode;
  danger?: boolean;
  disabled?: boolean;
  onSelect: () => void;
}

export interface MenuProps {
  label: string;
  icon: ReactNode;
  items: MenuItem[];
  /** Whether to show the label above the items. */
  titled?: boolean;
  /** Text beside the icon; hidden on a phone. */
  text?: string;
}

/** A menu button. */
export function Menu({ label, icon, items, titled, text }: MenuProps) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!open) return;
    root.current?.querySelector<HTMLButtonElement>("[role=menuitem]:not(:disabled)")?.focus();
    const outside = (event: PointerEvent) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);

  const onKey = (event: KeyboardEvent) => {
    if (!open) return;
    const entries = [...(root.current?.querySelectorAll<HTMLButtonElement>("[role=menuitem]:not(:disabled)") ?? [])];
    const at = entries.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === "Escape") {
      setOpen(false);
      root.current?.querySelector("button")?.focus();
    } else if (event.key === "ArrowDown") entries[(at + 1) % entries.length]?.focus();
    else if (event.key === "ArrowUp") entries[(at - 1 + entries.length) % entries.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: handles the keys of the menu.
    <div className={styles.menu} ref={root} onKeyDown={onKey}>
      <Button
        aria-label={label}
        title={label}
        icon={icon}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {text && <span className={styles.text}>{text}</span>}
      </Button>
      {open && (
        <div className={classes(surface.floating, styles.popup)}>
          {titled && (
            <div className={styles.title} aria-hidden="true">
              {label}
            </div>
          )}
          <div className={styles.list} role="menu" aria-label={label}>
            {items.map((item) => (
              <button
                key={item.label}
                type="button"
                role="menuitem"
                disabled={item.disabled}
                className={classes(styles.item, item.danger && styles.danger)}
                onClick={() => {
                  setOpen(false);
                  item.onSelect();
                }}
              >
                {item.icon}
                {item.label}
              </button>
            ))}
          </div>
        </div>
      )}
    </div>
  );
}
