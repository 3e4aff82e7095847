import { TOKEN } from "./api";
import { startMock } from "./server";

const port = Number(process.env.PORT ?? 2747);
const tasks = Number(process.env.TASKS ?? 240);
const closed = process.env.CLOSED === "1";
const { url } = await startMock(port, tasks, { closed });
console.log(`Mock server at ${url} with ${tasks} finished Tasks${closed ? `; the token is ${TOKEN}` : ""}`);
