import type { LucideIcon } from "lucide-react";
import { Link } from "react-router";
import { classes } from "../../components/classes";
import surface from "../../components/surface.module.css";
import type { Tone } from "../../lib/phase";
import styles from "./Tile.module.css";

export interface TileProps {
  label: string;
  value: string;
  note?: string;
  icon: LucideIcon;
  tone: Tone;
  to?: string;
}

/** A number with a link to the related list. */
export function Tile({ label, value, note, icon: Icon, tone, to }: TileProps) {
  const content = (
    <>
      <span className={styles.label}>
        <Icon size={14} aria-hidden="true" />
        {label}
      </span>
      <span className={styles.value}>{value}</span>
      <span className={styles.note}>{note ?? " "}</span>
    </>
  );
  const className = classes(surface.raised, styles.tile, styles[tone]);
  return to ? (
    <Link to={to} className={className}>
      {content}
    </Link>
  ) : (
    <div className={className}>{content}</div>
  );
}
