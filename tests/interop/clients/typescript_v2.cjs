// The client of `@modelcontextprotocol/client` 2.x. Modes: "legacy" (its default), "auto", and a revision to pin.
"use strict";

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
const { Person, failure, report, tour } = require("./tour.cjs");

const me = { name: "interop", version: "0" };

report(async (mode, command, args) => {
  const person = new Person();
  const server = { command, args, env: process.env };
  // The command may be the URL of a server.
  const transport = () =>
    args.length ? new StdioClientTransport(server) : new StreamableHTTPClientTransport(new URL(command));
  const versionNegotiation = { mode: ["auto", "legacy"].includes(mode) ? mode : { pin: mode } };
  const client = new Client(me, { versionNegotiation, capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler("elicitation/create", async (request) => person.answer(request.params));
  await client.connect(transport());
  const call = (name, args, onprogress) => client.callTool({ name, arguments: args }, { onprogress });
  const found = { revision: client.getNegotiatedProtocolVersion(), ...(await tour(client, call, person)) };
  await client.close();

  const other = new Client(me, { versionNegotiation, capabilities: {} }); // one that has nobody to ask
  await other.connect(transport());
  found.nobody = await failure(other.callTool({ name: "ask", arguments: {} }));
  await other.close();
  return found;
});
