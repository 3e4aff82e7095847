// Sets the theme before the first paint. The page's own switch (app/theme.ts) reads and writes the same key.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("kubeopencode.theme");
  } catch {
    // Storage is disabled: use the theme of the system.
  }
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
