import { useEffect, useRef, useState } from "react";
import { classes } from "../components/classes";
import { SkeletonBlock } from "../components/SkeletonBlock";
import surface from "../components/surface.module.css";
import styles from "./CodeEditor.module.css";
import type { Mirror } from "./codemirror";

export interface CodeEditorProps {
  label: string;
  value: string;
  onValue?: (text: string) => void;
  readOnly?: boolean;
  invalid?: boolean;
  height?: string;
}

/** A YAML editor, loaded on first use. */
export function CodeEditor({ label, value, onValue, readOnly = false, invalid, height = "420px" }: CodeEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const mirror = useRef<Mirror | undefined>(undefined);
  const latest = useRef({ value, readOnly, onValue });
  const [ready, setReady] = useState(false);
  useEffect(() => {
    latest.current = { value, readOnly, onValue };
  });

  useEffect(() => {
    let gone = false;
    void import("./codemirror").then(({ startMirror }) => {
      if (gone || !host.current) return;
      mirror.current = startMirror(host.current, {
        text: latest.current.value,
        readOnly: latest.current.readOnly,
        label,
        onText: (text) => {
          if (text !== latest.current.value) latest.current.onValue?.(text);
        },
      });
      setReady(true);
    });
    return () => {
      gone = true;
      mirror.current?.destroy();
      mirror.current = undefined;
    };
  }, [label]);

  useEffect(() => mirror.current?.setText(value), [value]);
  useEffect(() => mirror.current?.setReadOnly(readOnly), [readOnly]);

  return (
    <div className={classes(surface.framed, styles.editor, invalid && styles.invalid)} style={{ height }}>
      {!ready && <SkeletonBlock lines={6} label="Loading the editor" />}
      <div ref={host} style={{ height: ready ? "100%" : 0 }} />
    </div>
  );
}
