// The client of `@modelcontextprotocol/sdk` 1.x, which knows the legacy era only.
"use strict";

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ElicitRequestSchema } = require("@modelcontextprotocol/sdk/types.js");
const { Person, failure, report, tour } = require("./tour.cjs");

const me = { name: "interop", version: "0" };

report(async (_mode, command, args) => {
  const person = new Person();
  const server = { command, args, env: process.env };
  // The command may be the URL of a server.
  const connect = () =>
    args.length ? new StdioClientTransport(server) : new StreamableHTTPClientTransport(new URL(command));
  const transport = connect();
  const tell = transport.setProtocolVersion?.bind(transport);
  let revision;
  transport.setProtocolVersion = (agreed) => { // where a transport is told
    revision = agreed;
    tell?.(agreed);
  };
  const client = new Client(me, { capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler(ElicitRequestSchema, async (request) => person.answer(request.params));
  await client.connect(transport);
  await client.ping();
  await client.setLoggingLevel("debug");
  const call = (name, args, onprogress) => client.callTool({ name, arguments: args }, undefined, { onprogress });
  const found = { revision, ...(await tour(client, call, person)) };
  await client.close();

  const other = new Client(me, { capabilities: {} }); // one that has nobody to ask
  await other.connect(connect());
  found.nobody = await failure(other.callTool({ name: "ask", arguments: {} }));
  await other.close();
  return found;
});
