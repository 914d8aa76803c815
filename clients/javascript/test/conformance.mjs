// The client program of docs/clients.md: `cargo xtask conformance -- node clients/javascript/test/conformance.mjs`.
//
// It reads an object a line, and answers each with a line. TOLLGATE_CLIENT names another entry of the package.
const { Tollgate } = await import(process.env.TOLLGATE_CLIENT ?? "tollgate-client");

let client;
let hold;
let lines = [];

const commands = {
  start({ url, token, timeout_ms, on_failure, closed = [] }) {
    client?.close();
    lines = [];
    hold = undefined;
    const written = lines;
    client = new Tollgate({
      url,
      token,
      timeout: timeout_ms,
      onFailure: on_failure,
      names: Object.fromEntries(closed.map((name) => [name, "closed"])),
      logger: { warn: (line) => written.push(line) },
    });
    return {};
  },
  check: async (call) => decision(await client.check(call.name, call.attributes, checkOptions(call))),
  peek: async (call) => decision(await client.peek(call.name, call.attributes, checkOptions(call))),
  wait: async (call) => decision(await client.wait(call.name, call.attributes, { ...checkOptions(call), timeout: call.timeout_ms })),
  async reserve(call) {
    hold = await client.reserve(call.name, call.attributes, reserveOptions(call));
    return decision(hold.decision);
  },
  renew: async () => statusOf(await hold.renew()),
  settle: async ({ cost }) => statusOf(await hold.settle(cost)),
  release: async () => statusOf(await hold.release()),
  hold: playHold,
  async count(call) {
    const answer = await client.count(call.policy, call.attributes, {
      quotas: call.quotas,
      window: call.window,
      block: call.block,
      operation: call.operation,
      cost: call.cost,
      used: call.used,
      onStoreFailure: call.on_store_failure,
    });
    return snakeCase(answer);
  },
  parallel: async ({ calls }) => ({ answers: await Promise.all(calls.map(answer)) }),
  failures: () => client.failures(),
  logs: () => ({ lines }),
};

async function playHold(call) {
  let seen;
  const work = async (scope) => {
    seen = scope;
    await new Promise((resolve) => setTimeout(resolve, call.sleep_ms ?? 0));
    if (call.settle !== undefined) await scope.settle(call.settle);
    if (call.fail) throw new WorkFailed();
  };
  try {
    await client.hold(call.name, call.attributes, { ...reserveOptions(call), releaseOnError: call.release_on_error }, work);
  } catch (error) {
    if (!(error instanceof WorkFailed)) throw error;
  }
  return { ...decision(seen.decision), lost: seen.lost };
}

class WorkFailed extends Error {}

function checkOptions({ cost, traceparent, tracestate }) {
  return { cost, traceparent, tracestate };
}

function reserveOptions(call) {
  return { ...checkOptions(call), units: call.units, expiresAfter: call.expires_after_ms };
}

function decision(answer) {
  return snakeCase(answer);
}

function statusOf({ status, failure }) {
  return { status, failure };
}

function snakeCase({ headers, ...fields }) {
  const snake = Object.entries(fields).map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]);
  return { ...Object.fromEntries(snake), ...(headers === undefined ? {} : { headers }) };
}

async function answer(call) {
  try {
    if (!Object.hasOwn(commands, call.do)) throw new Error(`there is no ${call.do}`);
    return await commands[call.do](call);
  } catch (error) {
    return { error: error.message };
  }
}

// `node:readline` also splits at U+2028, which JSON may contain.
async function* linesOf(input) {
  let rest = "";
  for await (const chunk of input.setEncoding("utf8")) {
    const whole = (rest + chunk).split("\n");
    rest = whole.pop();
    yield* whole;
  }
}

for await (const line of linesOf(process.stdin)) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
client?.close();
