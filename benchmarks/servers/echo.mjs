// The server of echo.py and echo_http.py in plain Node, on which most servers run today.
//
//     node benchmarks/servers/echo.mjs [--tools N] [--page N] [--http] [--sse]
//
// Over stdio it reads newline-delimited JSON and speaks the legacy era; with --http it prints its port and serves
// Streamable HTTP in both eras, without sessions, with JSON or (--sse) events. It has no dependency and checks nothing.

import http from "node:http";
import { writeSync } from "node:fs";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const tools = option("--tools", 1);
const page = option("--page", 1000);
const overHttp = process.argv.includes("--http");
const events = process.argv.includes("--sse");

const INFO = { name: "echo", version: "1" };
const LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN = { resultType: "complete", _meta: { "io.modelcontextprotocol/serverInfo": INFO } };
const LISTED = { ...MODERN, ttlMs: 0, cacheScope: "private" };
const RESULT = overHttp ? MODERN : {};

const tool = (number) => ({
  name: number ? `tool_${number}` : "echo",
  description: "Returns its text.",
  inputSchema: {
    type: "object",
    properties: { text: { type: "string", description: "What to return." } },
    required: ["text"],
  },
  annotations: { readOnlyHint: true },
});

function listing(cursor) {
  const first = Number(cursor ?? 0);
  const last = Math.min(first + page, tools);
  const listed = Array.from({ length: last - first }, (_, index) => tool(first + index));
  const more = last < tools ? { nextCursor: String(last) } : {};
  return { ...(overHttp ? LISTED : {}), tools: listed, ...more };
}

// The answer to a request as text; undefined for a notification.
function answer(text) {
  const { id, method, params } = JSON.parse(text);
  if (id === undefined) return undefined;
  const say = (result) => JSON.stringify({ jsonrpc: "2.0", id, result });
  switch (method) {
    case "tools/call":
      return say({ content: [{ type: "text", text: params.arguments.text }], ...RESULT });
    case "tools/list":
      return say(listing(params?.cursor));
    case "ping":
      return say({});
    case "initialize": {
      const asked = params.protocolVersion;
      const protocolVersion = LEGACY.includes(asked) ? asked : LEGACY.at(-1);
      return say({ protocolVersion, capabilities: { tools: {} }, serverInfo: INFO });
    }
    case "server/discover":
      if (overHttp) return say({ ...LISTED, supportedVersions: ["2026-07-28"], capabilities: { tools: {} } });
  }
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: `Method not found: ${method}` } });
}

function serveStdio() {
  // Chunks are kept as they come until a line ends: a line of many chunks costs no more than its length.
  let unfinished = [];
  process.stdin.on("data", (chunk) => {
    const end = chunk.lastIndexOf(10);
    if (end < 0) {
      unfinished.push(chunk);
      return;
    }
    unfinished.push(chunk.subarray(0, end));
    const lines = Buffer.concat(unfinished).toString("utf8").split("\n");
    unfinished = end + 1 < chunk.length ? [chunk.subarray(end + 1)] : [];
    const answers = lines.map(answer).filter((line) => line !== undefined);
    if (answers.length) process.stdout.write(answers.join("\n") + "\n");
  });
}

function serveHttp() {
  const server = http.createServer((request, response) => {
    if (request.method !== "POST") {
      response.writeHead(405).end();
      return;
    }
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const body = answer(Buffer.concat(chunks).toString("utf8"));
      if (body === undefined) {
        response.writeHead(202, { "Content-Length": 0 }).end();
      } else if (events) {
        response.writeHead(200, { "Content-Type": "text/event-stream" });
        response.end(`event: message\ndata: ${body}\n\n`);
      } else {
        response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) });
        response.end(body);
      }
    });
  });
  server.keepAliveTimeout = 60_000;
  server.listen({ port: 0, host: "127.0.0.1", backlog: 1024 }, () => writeSync(1, `${server.address().port}\n`));
}

overHttp ? serveHttp() : serveStdio();
