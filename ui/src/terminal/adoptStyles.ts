/**
 * Runs `make`, which opens a terminal, and makes its styles comply with the content security policy. The policy
 * forbids inline styles, which the terminal requires: style elements that it creates become adopted style sheets, and
 * the `style` of a cell (a colour set by a program) is set through the CSSOM, which the policy allows. Returns a
 * function that reverts both when the terminal is closed.
 */
export function adoptStyles(page: Document, make: () => void): () => void {
  const sheets = new Set<CSSStyleSheet>();
  const createElement = page.createElement.bind(page);
  let making = true;

  const createStyle = (): HTMLElement => {
    // The browser does not apply the policy to an unknown element.
    const holder = createElement("adopted-style");
    holder.hidden = true;
    const sheet = new CSSStyleSheet();
    sheets.add(sheet);
    page.adoptedStyleSheets = [...page.adoptedStyleSheets, sheet];
    Object.defineProperty(holder, "textContent", { get: () => "", set: (text: string) => sheet.replaceSync(text) });
    return holder;
  };
  const createCell = (): HTMLElement => {
    const cell = createElement("span");
    const setAttribute = cell.setAttribute.bind(cell);
    cell.setAttribute = (name, value) => {
      if (name === "style") cell.style.cssText = value;
      else setAttribute(name, value);
    };
    return cell;
  };

  // An own property hides the method of the prototype and of a previously opened terminal.
  const before = Object.getOwnPropertyDescriptor(page, "createElement");
  Object.defineProperty(page, "createElement", {
    configurable: true,
    value: (tag: string, options?: ElementCreationOptions) => {
      const name = tag.toLowerCase();
      if (name === "style" && making) return createStyle();
      return name === "span" ? createCell() : createElement(tag, options);
    },
  });
  const restore = () => {
    if (before) Object.defineProperty(page, "createElement", before);
    else Reflect.deleteProperty(page, "createElement");
    page.adoptedStyleSheets = page.adoptedStyleSheets.filter((sheet) => !sheets.has(sheet));
  };
  try {
    make();
  } catch (error) {
    restore();
    throw error;
  }
  making = false;
  return restore;
}
