// What the clients in JavaScript do with the demo server: everything it has, as tour.py in Python.
//
// A driver is run as `node driver.cjs MODE COMMAND...`, with NODE_PATH where the clients are installed; it starts the
// server with that command, or connects to the URL that stands there alone, and prints one JSON report, which
// test_foreign_clients.py judges.
"use strict";

const TEXT = "grün \u2028 \u{1f40d}\r\n\x0b";
const TOGETHER = 20;

/** Who is asked: accepts, accepts with a field left out, declines, dismisses; then nothing more. */
class Person {
  asked = [];
  #answers = [
    { action: "accept", content: { colour: "green", shade: "dark" } },
    { action: "accept", content: { colour: "blue" } },
    { action: "decline" },
    { action: "cancel" },
  ];

  answer(params) {
    this.asked.push(params);
    return this.#answers.shift();
  }
}

/** The JSON-RPC error that a call is answered with, or else its result, which a test will not expect. */
async function failure(call) {
  try {
    return await call;
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    return { code: error.code, message: error.message, data: error.data };
  }
}

/** Call everything. `call(name, args, onprogress)` */
async function tour(client, call, person) {
  const progress = [];
  const onprogress = (it) => progress.push([it.progress, it.total ?? null, it.message ?? null]);
  const echo = async (text) => (await call("echo", { text })).content[0].text;
  return {
    server: client.getServerVersion(),
    instructions: client.getInstructions(),
    tools: (await client.listTools()).tools,
    echo: await call("echo", { text: TEXT }),
    add: await call("add", { a: 2, b: 0.5 }),
    misfit: await call("add", { a: "x", b: 1 }),
    slow: await call("slow", { seconds: 1 }, onprogress),
    progress,
    flaky: [await call("flaky", {}), await call("flaky", {})],
    picture: await call("picture", {}),
    together: await Promise.all(Array.from({ length: TOGETHER }, (_, number) => echo(String(number)))),
    ask: [await call("ask", {}), await call("ask", {}), await call("ask", {}), await call("ask", {})],
    asked: person.asked,
    unknown: await failure(call("nonesuch", {})),
  };
}

/** Run a driver's `main(mode, command, args)` and print its report; a failure is a stack on stderr and status 1. */
async function report(main) {
  const [mode, command, ...args] = process.argv.slice(2);
  process.stdout.write(JSON.stringify(await main(mode, command, args)));
}

module.exports = { Person, failure, report, tour };
