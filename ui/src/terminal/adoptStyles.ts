/**
 * Runs `make` while style elements that it creates become adopted style sheets: the content security policy allows no
 * inline styles, and the terminal has no other way to bring its own. Returns how to take the sheets away again.
 */
export function adoptStyles(page: Document, make: () => void): () => void {
  const sheets = new Set<CSSStyleSheet>();
  const createElement = page.createElement.bind(page);
  const createStyle = (): HTMLElement => {
    // An element of an unknown name holds the text without the browser judging it.
    const holder = createElement("adopted-style");
    holder.hidden = true;
    const sheet = new CSSStyleSheet();
    sheets.add(sheet);
    page.adoptedStyleSheets = [...page.adoptedStyleSheets, sheet];
    Object.defineProperty(holder, "textContent", { get: () => "", set: (text: string) => sheet.replaceSync(text) });
    return holder;
  };
  // An own property hides the method of the prototype for the time of the call, and nobody else's.
  Object.defineProperty(page, "createElement", {
    configurable: true,
    value: (tag: string, options?: ElementCreationOptions) =>
      tag.toLowerCase() === "style" ? createStyle() : createElement(tag, options),
  });
  try {
    make();
  } finally {
    Reflect.deleteProperty(page, "createElement");
  }
  return () => {
    page.adoptedStyleSheets = page.adoptedStyleSheets.filter((sheet) => !sheets.has(sheet));
  };
}
