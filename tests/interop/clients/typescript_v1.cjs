// The client of `@modelcontextprotocol/sdk` 1.x, which knows the legacy era only.
"use strict";

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { ElicitRequestSchema } = require("@modelcontextprotocol/sdk/types.js");
const { Person, failure, report, tour } = require("./tour.cjs");

const me = { name: "interop", version: "0" };

report(async (_mode, command, args) => {
  const person = new Person();
  const server = { command, args, env: process.env };
  const transport = new StdioClientTransport(server);
  let revision;
  transport.setProtocolVersion = (agreed) => (revision = agreed); // where a transport is told
  const client = new Client(me, { capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler(ElicitRequestSchema, async (request) => person.answer(request.params));
  await client.connect(transport);
  await client.ping();
  await client.setLoggingLevel("debug");
  const call = (name, args, onprogress) => client.callTool({ name, arguments: args }, undefined, { onprogress });
  const found = { revision, ...(await tour(client, call, person)) };
  await client.close();

  const other = new Client(me, { capabilities: {} }); // one that has nobody to ask
  await other.connect(new StdioClientTransport(server));
  found.nobody = await failure(other.callTool({ name: "ask", arguments: {} }));
  await other.close();
  return found;
});
