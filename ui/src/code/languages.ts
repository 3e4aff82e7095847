/** The languages that have colours, by the names of highlight.js. */
export type Language =
  | "bash"
  | "c"
  | "cpp"
  | "csharp"
  | "css"
  | "diff"
  | "dockerfile"
  | "go"
  | "ini"
  | "java"
  | "javascript"
  | "json"
  | "kotlin"
  | "makefile"
  | "markdown"
  | "php"
  | "python"
  | "ruby"
  | "rust"
  | "sql"
  | "swift"
  | "typescript"
  | "xml"
  | "yaml";

/** File extensions, and names of files that have none. They also name the language of a code block in Markdown. */
const ENDINGS: Record<Language, string> = {
  bash: "sh bash zsh shell bashrc profile envrc",
  c: "c h",
  cpp: "cc cpp cxx hh hpp hxx ino",
  csharp: "cs",
  css: "css scss less",
  diff: "diff patch",
  dockerfile: "dockerfile containerfile",
  go: "go",
  ini: "ini toml cfg conf properties editorconfig gitconfig env",
  java: "java groovy gradle",
  javascript: "js jsx mjs cjs",
  json: "json jsonc json5 jsonl ndjson webmanifest",
  kotlin: "kt kts",
  makefile: "mk mak makefile gnumakefile",
  markdown: "md markdown mdx",
  php: "php",
  python: "py pyi pyw",
  ruby: "rb rake gemspec gemfile rakefile",
  rust: "rs",
  sql: "sql",
  swift: "swift",
  typescript: "ts tsx mts cts",
  xml: "xml html htm xhtml svg vue svelte xsd xsl plist",
  yaml: "yaml yml",
};

const BY_ENDING = new Map(
  Object.entries(ENDINGS).flatMap(([language, endings]) =>
    [language, ...endings.split(" ")].map((ending): [string, Language] => [ending, language as Language]),
  ),
);

/** The language of a word such as `ts` or `python`. */
export function languageNamed(word: string): Language | undefined {
  return BY_ENDING.get(word.toLowerCase());
}

/** The language of a file, by its name. */
export function languageOf(path: string): Language | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return languageNamed(name.slice(name.lastIndexOf(".") + 1)) ?? languageNamed(name.slice(0, name.indexOf(".")));
}
