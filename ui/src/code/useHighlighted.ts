import { useEffect, useMemo, useState } from "react";
import type { Language } from "./languages";
import type { CodeLine } from "./tokens";

/** Longer texts and texts with longer lines have no colours: minified files would block the page. */
const MAX_TEXT = 300_000;
const MAX_LINE = 2_000;

function isColourable(text: string): boolean {
  return text.length <= MAX_TEXT && text.split("\n").every((line) => line.length <= MAX_LINE);
}

/** The lines of texts with colours; without them until the highlighter is loaded, and if the language is unknown. */
export function useHighlightedTexts(texts: string[], language: Language | undefined): CodeLine[][] {
  const [result, setResult] = useState<{ texts: string[]; lines: CodeLine[][] }>();
  const plain = useMemo(
    () => texts.map((text) => text.split("\n").map((line) => (line === "" ? [] : [{ text: line }]))),
    [texts],
  );
  useEffect(() => {
    if (!language || !texts.every(isColourable)) return;
    let gone = false;
    import("./highlighter").then(
      ({ highlight }) => {
        if (!gone) setResult({ texts, lines: texts.map((text) => highlight(text, language)) });
      },
      // A new version of the page was installed, or the network is down: the text stays readable.
      () => undefined,
    );
    return () => {
      gone = true;
    };
  }, [texts, language]);
  return result?.texts === texts ? result.lines : plain;
}

/** The lines of a text with colours. */
export function useHighlighted(text: string, language: Language | undefined): CodeLine[] {
  const texts = useMemo(() => [text], [text]);
  return useHighlightedTexts(texts, language)[0] ?? [];
}
