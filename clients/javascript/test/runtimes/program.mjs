// What is played in every runtime. The service has the limit 20/1h for each user, and counts for callers.

/** Throws if something is wrong, and returns what was played. */
export async function play({ Tollgate }, { tcp, unix, gone }) {
  const client = (url, options = {}) => new Tollgate({ url, timeout: 10_000, logger: { warn() {} }, ...options });
  const transports = [["tcp", tcp], ...(unix === undefined ? [] : [["unix", unix]])];
  for (const [transport, url] of transports) {
    const tollgate = client(url);
    const parallel = await Promise.all(Array.from({ length: 50 }, () => tollgate.check("search", { user: "alice" })));
    same(parallel.filter(({ allowed }) => allowed).length, 20, `${transport}: admitted of 50`);
    const denied = await tollgate.check("search", { user: "alice" });
    same([denied.allowed, denied.status, denied.reason, denied.remaining], [false, 429, "quota_exceeded", 0], `${transport}: denial`);
    same((await tollgate.peek("search", { user: "bob" })).remaining, 20, `${transport}: peek`);
    const hold = await tollgate.hold("render", { user: "carol" }, { cost: 5 });
    same((await hold.settle(2)).status, "settled", `${transport}: settlement`);
    await hold.close();
    same((await tollgate.check("search", { user: "carol" })).used, 3, `${transport}: used after a hold`);
    const window = { window: "1h@first_hit" };
    for (const used of [1, 2]) same((await tollgate.count("api", { key: "ä" }, window)).used, used, `${transport}: count`);
    const block = { quotas: ["1/1h@first_hit"], block: "30s" };
    same((await tollgate.count("block", { key: "ä" }, block)).blocked, false, `${transport}: first hit`);
    same((await tollgate.count("block", { key: "ä" }, block)).blocked, true, `${transport}: block`);
    same(tollgate.failures(), {}, `${transport}: failures`);
    tollgate.close();
  }
  const without = client(gone, { names: { login: "closed" } });
  same([(await without.check("search")).allowed, (await without.check("login")).allowed], [true, false], "without the service");
  same(without.failures(), { connection: 2 }, "failures without the service");
  return `${transports.map(([transport]) => transport).join(", ")} passed`;
}

function same(actual, expected, what) {
  const [one, other] = [actual, expected].map((value) => JSON.stringify(value));
  if (one !== other) throw new Error(`${what}: ${one}, expected ${other}`);
}
