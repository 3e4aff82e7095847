import { readFileSync, writeFileSync } from "node:fs";
import openapiTypescript, { astToString, type OpenAPI3 } from "openapi-typescript";

/**
 * `src/api/schema.ts` from the OpenAPI document. Only the bodies: the page builds its addresses from the list of kinds
 * (`src/api/kinds.ts`), and types of five hundred paths would be dead weight.
 *
 * With `--check` nothing is written; it fails when the file is not what the document gives.
 */
const SOURCE = new URL("../../docs/reference/openapi.json", import.meta.url);
const TARGET = new URL("../src/api/schema.ts", import.meta.url);
const HEAD = `/**
 * The bodies of the REST API. Made from docs/reference/openapi.json by \`npm run generate\`: change nothing here.
 */

`;

async function generate(): Promise<string> {
  const { openapi, info, components } = JSON.parse(readFileSync(SOURCE, "utf8")) as OpenAPI3;
  const bodies: OpenAPI3 = { openapi, info, paths: {}, components: { schemas: components?.schemas } };
  const nodes = await openapiTypescript(bodies, { emptyObjectsUnknown: true });
  return HEAD + astToString(nodes);
}

function present(): string | undefined {
  try {
    return readFileSync(TARGET, "utf8");
  } catch {
    return undefined;
  }
}

const wanted = await generate();
if (!process.argv.includes("--check")) {
  writeFileSync(TARGET, wanted);
} else if (present() !== wanted) {
  console.error("src/api/schema.ts is not what docs/reference/openapi.json gives: run `npm run generate`");
  process.exitCode = 1;
}
