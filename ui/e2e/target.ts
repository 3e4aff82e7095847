import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Mock, startMock } from "../dev/server";

export interface Target {
  url: string;
  /** Only when the mock is what is tested. */
  mock?: Mock;
  close: () => Promise<void>;
}

/** The server at `E2E_URL` or of the link `E2E_LOGIN`, or a mock that is started here. */
export async function openTarget(tasks = 240, closed = false): Promise<Target> {
  const { E2E_URL, E2E_LOGIN } = process.env;
  const url = E2E_URL || (E2E_LOGIN && new URL(E2E_LOGIN).origin);
  if (url) return { url: url.replace(/\/$/, ""), close: async () => {} };
  if (!existsSync(fileURLToPath(new URL("../dist/index.html", import.meta.url)))) {
    throw new Error("There is no built page: run `npm run build` first");
  }
  const mock = await startMock(0, tasks, { closed });
  return { url: mock.url, mock, close: mock.close };
}
