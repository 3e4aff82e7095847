import type { ServerResponse } from "node:http";
import { deflateSync } from "node:zlib";
import type { Artifact, ArtifactFile, ChangedFile, Task, TaskChanges } from "../src/api/types";
import { ApiFailure, json } from "./responses";

const HOUR = 3_600_000;

const REPORT = `# Report of the run

The login test waited a **fixed 5 s** for a redirect. It now waits for the redirect itself.

| suite | before | after |
|:------|-------:|------:|
| login | 5003 ms | 212 ms |
| cart  | 148 ms | 148 ms |

## What changed

1. \`tests/login.spec.ts\` waits for the URL
   - no fixed sleep is left
   - the timeout is that of the suite
2. The helper \`sleep\` is gone

- [x] all 212 tests pass
- [ ] the same for \`tests/cart.spec.ts\`

\`\`\`ts
await page.waitForURL("**/home");
\`\`\`

> The screenshot shows the page after sign-in.

![The page after sign-in](screens/home.png)

See <https://playwright.dev/docs/test-timeouts>.
`;

const COVERAGE = `${JSON.stringify({ total: { lines: { total: 4812, covered: 4401, pct: 91.46 } } }, undefined, 2)}\n`;
const SOURCE = `import { expect, test } from "@playwright/test";

/** The redirect is what we wait for, however long the machine takes. */
test("redirects after sign-in", async ({ page }) => {
  await page.goto("/login");
  await page.fill("#user", "ada");
  await page.waitForURL("**/home", { timeout: 30_000 });
  await expect(page.locator("h1")).toHaveText("Welcome, Ada");
});
`;

/** A picture of stripes. */
function picture(width: number, height: number): Buffer {
  const rows = Buffer.alloc((width * 3 + 1) * height);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const at = y * (width * 3 + 1) + 1 + x * 3;
      rows.set(y < 36 ? [44, 88, 204] : (x + y) % 40 < 20 ? [230, 233, 238] : [255, 255, 255], at);
    }
  }
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    let crc = 0xffffffff;
    for (const byte of body) {
      crc ^= byte;
      for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
    }
    const framed = Buffer.alloc(body.length + 8);
    framed.writeUInt32BE(data.length);
    body.copy(framed, 4);
    framed.writeUInt32BE((crc ^ 0xffffffff) >>> 0, body.length + 4);
    return framed;
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([
    signature,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

const FILES: Record<string, string | Buffer> = {
  "REPORT.md": REPORT,
  "coverage/summary.json": COVERAGE,
  "screens/home.png": picture(640, 360),
  "src/login.spec.ts": SOURCE,
  "app.wasm": Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]),
  "long.log": "a line of a long log\n".repeat(40_000),
  ...Object.fromEntries(
    Array.from({ length: 450 }, (_, i) => [`modules/part-${i}/index.js`, `export default ${i};\n`]),
  ),
};

const digestOf = (text: string) =>
  [...text]
    .reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) >>> 0, 7)
    .toString(16)
    .padStart(8, "0")
    .repeat(8);
const isImage = (content: string | Buffer) => Buffer.isBuffer(content) && content[0] === 0x89;

function entries(): ArtifactFile[] {
  const files = Object.entries(FILES).map(([path, content]): ArtifactFile => {
    const size = Buffer.byteLength(content);
    return { name: path, path, kind: "file", size, digest: digestOf(path), executable: false };
  });
  const others: ArtifactFile[] = [
    { name: "latest", path: "latest", kind: "link", target: "src/login.spec.ts" },
    { name: "tmp", path: "tmp", kind: "directory" },
  ];
  return [...files, ...others].sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
}

function artifactsOf(task: Task): Artifact[] {
  const at = (hours: number) => new Date(Date.parse(task.completionTime ?? "") + hours * HOUR).toISOString();
  if (!task.completionTime || task.phase !== "Completed") return [];
  const epoch = task.runEpoch ?? 1;
  const storedAt = at(0);
  const base = { epoch, digest: digestOf(task.name), storedAt };
  return [
    {
      ...base,
      name: "report",
      bytes: 612_331,
      files: Object.keys(FILES).length,
      expiresAt: new Date(Date.now() + 29 * 24 * HOUR).toISOString(),
    },
    {
      ...base,
      name: "trace",
      bytes: 48_112_904,
      files: 12,
      expired: {
        at: at(0),
        cause: "Space",
        message: `expired at ${at(0)}: the artifacts of its namespace needed more space than allowed`,
      },
    },
  ];
}

/** Answers `artifacts/…` of a Task. */
export function answerArtifacts(response: ServerResponse, task: Task, path: string[], query: URLSearchParams): void {
  const [name, part] = path;
  const artifacts = artifactsOf(task);
  if (name === undefined) return json(response, 200, { artifacts });
  const artifact = artifacts.find((known) => known.name === name && !known.expired);
  if (!artifact) throw new ApiFailure(404, "NotFound", `this Task has no artifact '${name}'`);
  if (part === "files") {
    const found = entries().filter((file) => file.path.startsWith(query.get("prefix") ?? ""));
    const after = query.get("after")?.replace(/^\/hex\/(.*)ffffffff$/, (_, hex) => `${Buffer.from(hex, "hex")}\uffff`);
    const rest = after ? found.filter((file) => file.path > after) : found;
    const files = rest.slice(0, Number(query.get("limit") ?? 200));
    return json(response, 200, {
      files,
      total: found.length,
      next: files.length < rest.length ? files.at(-1)?.path : undefined,
    });
  }
  if (part === "content") {
    const content = FILES[query.get("path") ?? ""];
    if (content === undefined) throw new ApiFailure(404, "NotFound", "There is no such file");
    const type = isImage(content)
      ? "image/png"
      : Buffer.isBuffer(content)
        ? "application/octet-stream"
        : "text/plain; charset=utf-8";
    response.writeHead(200, { "Content-Type": type });
    response.end(content);
    return;
  }
  response.writeHead(200, {
    "Content-Type": "application/zstd",
    "Content-Disposition": `attachment; filename="${name}.tar.zst"`,
  });
  response.end("archive");
}

const patchOf = (path: string, hunks: string) =>
  `diff --git a/${path} b/${path}\n--- a/${path}\n+++ b/${path}\n${hunks}`;
const file = (path: string, part: Partial<ChangedFile>): ChangedFile => ({
  path,
  status: "modified",
  insertions: 0,
  deletions: 0,
  binary: false,
  cut: false,
  patch: "",
  ...part,
});

const LOCK = Array.from({ length: 700 }, (_, i) => `+    "module-${i}": "1.0.${i}",`).join("\n");

function changesOf(): TaskChanges {
  const files = [
    file("docs/images/sign-in.png", { status: "added", binary: true }),
    file("package-lock.json", { insertions: 700, patch: patchOf("package-lock.json", `@@ -1,0 +1,700 @@\n${LOCK}\n`) }),
    file("scripts/run.sh", {
      patch: "diff --git a/scripts/run.sh b/scripts/run.sh\nold mode 100644\nnew mode 100755\n",
    }),
    file("src/helpers/sleep.ts", {
      status: "deleted",
      deletions: 3,
      patch: patchOf(
        "src/helpers/sleep.ts",
        "@@ -1,3 +0,0 @@\n-export function sleep(ms: number): Promise<void> {\n-  return new Promise((done) => setTimeout(done, ms));\n-}\n",
      ),
    }),
    file("src/session.py", {
      status: "renamed",
      oldPath: "src/sessions.py",
      insertions: 3,
      deletions: 2,
      patch: patchOf(
        "src/session.py",
        '@@ -12,6 +12,7 @@ class Session:\n     """A session of a user.\n \n     It ends after a time without requests.\n     """\n-    def __init__(self, user, seconds=300):\n-        self.user = user\n+    def __init__(self, user: str, seconds: int = 300) -> None:\n+        self.user = user.strip()\n+        self.seconds = seconds  # of inactivity\n         self.started = time.time()\n',
      ),
    }),
    file("tests/login.spec.ts", {
      insertions: 4,
      deletions: 2,
      patch: patchOf(
        "tests/login.spec.ts",
        '@@ -1,4 +1,3 @@\n-import { sleep } from "../src/helpers/sleep";\n import { expect, test } from "@playwright/test";\n \n /* Signing in,\n@@ -38,7 +37,10 @@ test("redirects after sign-in", async () => {\n   await page.fill("#user", "ada");\n   await page.fill("#password", "secret");\n   await page.click("button[type=submit]");\n-  await expect(page.url()).toContain("/home", { timeout: 5000 });\n+  // The redirect is what we wait for, however long the machine takes.\n+  await expect(page.url()).toContain("/home", { timeout: 30_000 });\n+  await page.waitForURL("**/home");\n+  await expect(page.locator("h1")).toHaveText("Welcome, Ada");\n });\n \n // The end\n',
      ),
    }),
  ];
  return {
    compared: true,
    files,
    fileCount: files.length,
    insertions: 707,
    deletions: 7,
    commits: [
      { id: "9f1c2b7a40d35e6f8a9b0c1d2e3f405162738495", subject: "Wait for the redirect instead of a fixed time" },
      { id: "41aa0be2f3c4d5e6f708192a3b4c5d6e7f809102", subject: "Remove the helper sleep" },
    ],
    commitCount: 2,
    notes: [],
  };
}

/** Answers `changes` and `changes/patch` of a Task. */
export function answerChanges(response: ServerResponse, task: Task, part: string | undefined): void {
  if (!task.completionTime) throw new ApiFailure(404, "NotFound", "no changes are recorded for this run");
  const changes = changesOf();
  if (part === undefined) return json(response, 200, changes);
  response.writeHead(200, { "Content-Type": "text/x-diff" });
  response.end(changes.files.map(({ patch }) => patch).join(""));
}

/** What a finished Task shows of what its run left. */
export const LEFT: Partial<Task> = {
  caches: [
    { name: "npm", hit: "Exact", bytes: 214_331_904, seconds: 3 },
    { name: "playwright", hit: "Prefix", bytes: 401_203_200, seconds: 7, saved: true },
    { name: "build", hit: "Miss", saved: true },
  ],
  published: {
    branch: "agents/fix-login-timeout",
    commit: "9f1c2b7a40d35e6f8a9b0c1d2e3f405162738495",
    url: "https://git.example.com/shop/shop/pull/482",
  },
  result: {
    summary: "Done. All tests pass; the change is small and only touches what the Task named.",
    outputs: { version: "2.4.1", coverage: "91.46", image: "quay.io/shop/web@sha256:3fa1c0de77aa01b2" },
  },
};
