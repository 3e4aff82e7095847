import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

// CSS variables are inherited into the shadow tree and follow the theme.
const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "12.5px", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "var(--mono)", padding: "8px 0", caretColor: "var(--text)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--text-3)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--surface-2)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 26%, transparent)",
  },
  ".cm-searchMatch": { backgroundColor: "var(--mark)" },
  ".cm-panels": { backgroundColor: "var(--surface-2)", color: "var(--text)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--ansi-magenta)" },
  { tag: tags.comment, color: "var(--text-3)" },
  { tag: tags.meta, color: "var(--text-3)" },
]);

export interface Mirror {
  setText: (text: string) => void;
  setReadOnly: (readOnly: boolean) => void;
  destroy: () => void;
}

/**
 * Creates an editor inside a shadow tree: there its styles are adopted style sheets, which a content security policy
 * without `unsafe-inline` allows; in the document they would be style elements, which it does not.
 */
export function startMirror(
  host: HTMLElement,
  options: { text: string; readOnly: boolean; label: string; onText: (text: string) => void },
): Mirror {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const parent = document.createElement("div");
  parent.style.height = "100%";
  root.replaceChildren(parent);
  const editable = new Compartment();
  const locked = (readOnly: boolean) => [EditorState.readOnly.of(readOnly)];
  const view = new EditorView({
    root,
    parent,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        search({ top: true }),
        yaml(),
        theme,
        syntaxHighlighting(colours),
        EditorView.lineWrapping,
        // Some assistive technologies do not treat contenteditable elements as focusable.
        EditorView.contentAttributes.of({ "aria-label": options.label, tabindex: "0" }),
        editable.of(locked(options.readOnly)),
        keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) options.onText(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    setText: (text) => {
      if (text === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    setReadOnly: (readOnly) => view.dispatch({ effects: editable.reconfigure(locked(readOnly)) }),
    destroy: () => view.destroy(),
  };
}
