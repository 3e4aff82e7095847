// Sets the theme before the first paint. The page's own switch writes the same key.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("kubeopencode.theme");
  } catch {
    // Storage is off: the system's theme it is.
  }
  if (chosen === "dark" || chosen === "light") {
    document.documentElement.dataset.theme = chosen;
  }
})();
