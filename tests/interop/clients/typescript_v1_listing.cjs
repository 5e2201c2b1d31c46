// The client of `@modelcontextprotocol/sdk` 1.x, which validates a whole listing at once: it lists a server's tools
// and calls them without arguments. A result that it does not understand (a block of a new type) is null.
// MODE is ignored: it knows the legacy era only.
"use strict";

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { report } = require("./tour.cjs");

report(async (_mode, command, args) => {
  const client = new Client({ name: "interop", version: "0" }, { capabilities: {} });
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  const { tools } = await client.listTools();
  const results = {};
  for (const { name } of tools) results[name] = await client.callTool({ name, arguments: {} }).catch(() => null);
  await client.close();
  return { server: client.getServerVersion(), tools, results };
});
