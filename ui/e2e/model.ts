import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { START_MS } from "./limits";
import { ended } from "./platform";

const PYTHON = fileURLToPath(new URL("../../scripts/python", import.meta.url));
const SERVER = fileURLToPath(new URL("model.py", import.meta.url));

/** A real language model on this machine that requires `key`. */
export class RealModel {
  private constructor(
    private readonly child: ChildProcess,
    /** Address of its OpenAI-compatible API. */
    readonly url: string,
  ) {}

  static async start(key: string): Promise<RealModel> {
    const python = execFileSync(PYTHON, { encoding: "utf8" }).trim();
    const child = spawn(python, [SERVER], {
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...process.env, MODEL_KEY: key },
    });
    const url = await new Promise<string>((found, failed) => {
      const late = setTimeout(() => failed(new Error("The model did not start in time")), START_MS);
      if (!child.stdout) return failed(new Error("The model has no output"));
      createInterface(child.stdout).on("line", (line) => {
        if (!line.startsWith("http://")) return;
        clearTimeout(late);
        found(`${line.trim()}/v1`);
      });
      void ended(child).then((code) => {
        clearTimeout(late);
        failed(new Error(`The model ended with code ${code}`));
      });
    }).catch((error) => {
      child.kill("SIGKILL");
      throw error;
    });
    return new RealModel(child, url);
  }

  async stop(): Promise<void> {
    this.child.kill("SIGTERM");
    await ended(this.child);
  }
}
