// An agent's client by the protocol's other official SDK, whose schemas check each message that comes: agent.mjs MODULES
// RETROVANE TRACE. It finds the demo's bug, is refused what is no question, and gives up what takes long.

import assert from "node:assert";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, retrovane, trace] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.join(modules, "node_modules", name)).href);
const sdk = "@modelcontextprotocol/sdk/dist/esm";
const { Client } = await load(`${sdk}/client/index.js`);
const { StdioClientTransport } = await load(`${sdk}/client/stdio.js`);
const { CallToolResultSchema, JSONRPCMessageSchema } = await load(`${sdk}/types.js`);
const { default: Ajv } = await load("ajv/dist/ajv.js");

const client = new Client({ name: "test", version: "1" });
const transport = new StdioClientTransport({ command: retrovane, args: ["mcp", trace], stderr: "inherit", env: process.env });
const problems = [];
client.onerror = (error) => problems.push(error.message);
await client.connect(transport);
const passes = transport.onmessage;
let messages = 0;
transport.onmessage = (message, ...rest) => {
  JSONRPCMessageSchema.parse(message);
  messages += 1;
  passes(message, ...rest);
};

const { tools } = await client.listTools();
const ajv = new (Ajv.default ?? Ajv)({ strict: true });
const checks = new Map(tools.map((tool) => [tool.name, ajv.compile(tool.inputSchema)]));
const makes = tools.filter((tool) => !tool.annotations.readOnlyHint).map((tool) => tool.name).sort();
assert.deepStrictEqual(makes, ["hunt", "report"]);
assert.ok(tools.every((tool) => tool.description && !tool.annotations.openWorldHint && tool.annotations.destructiveHint !== true));

async function ask(name, given, options) {
  assert.ok(checks.get(name)(given), `${name} ${JSON.stringify(given)}: ${ajv.errorsText(checks.get(name).errors)}`);
  const result = CallToolResultSchema.parse(await client.callTool({ name, arguments: given }, undefined, options));
  const answer = JSON.parse(result.content[0].text);
  assert.deepStrictEqual(answer, result.structuredContent);
  return { answer, isError: result.isError === true };
}

const { answer: place } = await ask("open", {});
const { cursor } = place;
const { answer: write } = await ask("last_write", { cursor, expression: "cache->log" });
const { answer: values } = await ask("evaluate", { cursor, expressions: ["bucket"] });
console.log(`written in ${write.frame.function}, bucket ${values.values.bucket.value}`);
for (const [name, given] of [
  ["evaluate", { cursor, expressions: ["system(\"id\")"] }], ["go", { cursor, to: "!id" }], ["hunt", {}], ["where", { cursor: 99 }],
]) {
  const { answer, isError } = await ask(name, given);
  assert.ok(isError && answer.error, `${name}: ${JSON.stringify(answer)}`);
}
await assert.rejects(client.callTool({ name: "shell", arguments: { command: "id" } }));
// What is given up leaves the cursor where it was.
const giveUp = new AbortController();
const given = { cursor, location: "main", condition: "1 == 0", forward: false };
const asked = client.callTool({ name: "run_to", arguments: given }, undefined, { signal: giveUp.signal });
setTimeout(() => giveUp.abort(), 20);
const hasEnded = await asked.then(() => true, () => false);
const { answer: still } = await ask("where", { cursor });
assert.ok(hasEnded || still.position === write.position, JSON.stringify(still));
await client.close();
assert.deepStrictEqual(problems, []);
assert.ok(messages > 8);
console.log("all messages are as the schema says");
