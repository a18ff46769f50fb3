// The semantics of a device: what leaves, how often, and what a crash does.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Device,
  InvalidInput,
  MemoryStorage,
  Refused,
  Unreachable,
} from "../../../../src/discreet/service/client/javascript/index.js";
import {
  QUICK,
  Service,
  answer,
  deviceOf,
  kernelPolicy,
  reportsIn,
  sha256,
  sourcePolicy,
  termsOf,
  textOf,
  untouchable,
  withClock,
} from "./fixtures.mjs";

const URL_ = "https://trial.example.org";
// Of the policy of its study.
const RECORD = `policy ${URL_} visits`;
const DAY = 86_400;

const made = (service, options) => deviceOf(URL_, service, options);

test("a person agrees, acts and reports once", async () => {
  const service = new Service(kernelPolicy());
  const { device } = await made(service, { agreed: null });
  await assert.rejects(device.act({ x: 1 }), /agreed to no terms/);
  const terms = await device.terms();
  assert.equal(terms.mostEpsilon, 1);
  await device.agree(terms.sha256);
  const choice = await device.act({ x: 1 });
  assert.deepEqual([choice.arm, choice.name, choice.propensity], [0, "call", 1]);
  assert.equal(await device.report(choice.id, 1), true);
  assert.equal(await device.report(choice.id, 0), true);
  const [row, ...more] = await device.ledger();
  assert.deepEqual([row.state, row.epsilon, row.version, more.length], ["accepted", 1, 3, 0]);
  assert.deepEqual(service.bodies, [row.body]);
  const spending = { epsilon: 1, delta: 0, mostEpsilon: 1, mostDelta: 0 };
  assert.deepEqual(await device.spending(), spending);
  const [report] = reportsIn(row.body);
  assert.deepEqual(Object.keys(report), [
    ...["kind", "schema", "policy_version", "source", "noise"],
    ...["public_coins", "places", "signs"],
  ]);
  assert.equal(JSON.parse(row.body).ids, undefined);
  await device.allow(100);
  assert.equal((await device.act({ x: 1 })).id, null, "one contribution is covered");
  for (const { body } of service.requests) assert.ok(!body?.includes('"x"'));
});

test("no other terms are agreed to, and forged ones are refused", async () => {
  const service = new Service(kernelPolicy());
  const { device } = await made(service, { agreed: "0".repeat(64) });
  await assert.rejects(device.refresh(), /show them device.terms/);
  service.terms = { ...service.terms, most_epsilon: 5 };
  await assert.rejects(device.terms(), /SHA-256 of the terms/);
});

test("a policy on other terms is refused before a context is looked at", async () => {
  const service = new Service(kernelPolicy());
  const { device } = await made(service);
  for (const changes of [
    { epsilon: 2 },
    { arm_names: ["call", "cut"] },
    { max_contributions: 2 },
  ]) {
    service.policy = textOf(kernelPolicy(changes));
    await assert.rejects(device.act(untouchable), InvalidInput);
  }
  service.policy = textOf(kernelPolicy());
  await device.refresh();
  service.policy = textOf(kernelPolicy({ version: 4, epsilon: 2 }));
  await assert.rejects(device.refresh(), /epsilon 2/);
  assert.equal((await device.act({ x: 9 })).version, 3, "the last good policy stays");
});

test("a policy that was changed on the way is not used", async () => {
  const service = new Service(kernelPolicy());
  service.fail = (method, path) =>
    path.endsWith("/policy")
      ? new Response(service.policy, { headers: { ETag: `"${sha256("another")}"` } })
      : null;
  const { device } = await made(service);
  await assert.rejects(
    device.act(untouchable),
    /SHA-256 of the policy is .*fetch the policy again/,
  );
});

test("a policy is fetched again only where it is another one", async () => {
  const service = new Service(kernelPolicy());
  const { device, storage } = await made(service);
  assert.equal(await device.refresh(), true);
  assert.equal(await device.refresh(), false);
  const { id } = await device.act({ x: 1 });
  service.policy = textOf(kernelPolicy({ version: 4 }));
  assert.equal(await device.refresh(), true);
  assert.equal((await device.act({ x: 1 })).version, 4);
  await device.report(id, 1);
  assert.equal((await device.ledger())[0].version, 3);
  assert.ok(!JSON.stringify(await storage.read()).includes("frequencies"));
  assert.equal((await storage.read(RECORD)).digest, sha256(service.policy));
});

test("an action needs no policy that another tab replaces meanwhile", async () => {
  const service = new Service(kernelPolicy());
  const inner = new MemoryStorage();
  const { device: other } = await made(service, { storage: inner });
  await other.refresh();
  let meanwhile = null;
  const storage = {
    read: (...of) => inner.read(...of),
    change: async (...of) => {
      const first = meanwhile;
      meanwhile = null;
      await first?.();
      return inner.change(...of);
    },
  };
  const { device } = await made(service, { storage });
  meanwhile = async () => {
    service.policy = textOf(kernelPolicy({ version: 4 }));
    await other.refresh();
  };
  const choice = await device.act({ x: 1 });
  assert.equal(choice.version, 3);
  const { device: again } = await made(service, { storage: inner });
  assert.equal(await again.report(choice.id, 1), true);
  assert.equal((await again.ledger())[0].version, 3);
});

test("a policy whose record is not the one that the state names is fetched again", async () => {
  // As two tabs leave it, or one that was stopped after its first write.
  const service = new Service(kernelPolicy({ max_contributions: 9 }));
  const inner = new MemoryStorage();
  const { device } = await made(service, { storage: inner });
  await device.refresh();
  service.policy = textOf(kernelPolicy({ max_contributions: 9, version: 4 }));
  let stops = true;
  const storage = {
    read: (...of) => inner.read(...of),
    change: async (...of) => {
      const result = await inner.change(...of);
      if (of[1] !== undefined && stops) throw new Error("stopped");
      return result;
    },
  };
  const { device: stopped } = await made(service, { storage });
  await assert.rejects(stopped.refresh(), /stopped/);
  assert.equal((await device.act({ x: 1 })).version, 3, "the tab that has it goes on");
  service.fail = () => {
    throw new TypeError("no network");
  };
  const offline = await (await made(service, { storage: inner })).device.act(untouchable);
  assert.deepEqual([offline.offered, offline.id], [false, null]);
  service.fail = () => null;
  stops = false;
  assert.equal((await stopped.act({ x: 1 })).version, 4);
  await inner.change((kept) => Object.assign(kept, { digest: "0" }), RECORD);
  const { device: another } = await made(service, { storage: inner });
  assert.equal((await another.act({ x: 1 })).version, 4);
});

test("an act goes on where another policy comes between its reads", async () => {
  const service = new Service(kernelPolicy({ max_contributions: 99 }));
  const inner = new MemoryStorage();
  const { device: other } = await made(service, { storage: inner });
  await other.refresh();
  let version = 3;
  const next = () => {
    version += 1;
    service.policy = textOf(kernelPolicy({ max_contributions: 99, version }));
    return other.refresh();
  };
  for (let step = 0; step < 4; step++) {
    let count = 0;
    const between =
      (name) =>
      async (...of) => {
        if (count++ === step) await next();
        return inner[name](...of);
      };
    const storage = { read: between("read"), change: between("change") };
    const choice = await (await made(service, { storage })).device.act({ x: 1 });
    assert.notEqual(choice.id, null);
    const [{ policy }] = (await inner.read()).pending.slice(-1);
    assert.equal(
      policy,
      sha256(textOf(kernelPolicy({ max_contributions: 99, version: choice.version }))),
    );
  }
  const [choice] = await Promise.all([other.act({ x: 1 }), next()]);
  assert.notEqual(choice.id, null);
});

test("what an action waits with is no context", async () => {
  const service = new Service(kernelPolicy({ max_contributions: 9 }));
  const { device, storage } = await made(service);
  for (const x of [1, 4.9]) await device.act({ x });
  const [one, other] = (await storage.read()).pending.map(({ place }) => ({ ...place, coin: 0 }));
  assert.deepEqual(one, other, "of one cell");
});

test("a policy that is not here any more is fetched again", async () => {
  const service = new Service(kernelPolicy());
  const { storage } = await made(service);
  await (await made(service, { storage })).device.refresh();
  const { device } = await made(service, { storage });
  await storage.change((kept) => delete kept.digest, RECORD);
  assert.equal((await device.act({ x: 1 })).offered, true);
});

test("a context of another shape changes nothing; values are never refused", async () => {
  const service = new Service(kernelPolicy({ max_contributions: 9 }));
  const { device, storage } = await made(service);
  await device.refresh();
  const before = await storage.read();
  for (const context of [{ y: 1 }, [1, 2], ["a"], "text", null]) {
    await assert.rejects(device.act(context), InvalidInput);
  }
  assert.deepEqual(await storage.read(), before);
  for (const context of [{ x: 1e300 }, { x: "north" }, {}, { x: null }, [NaN], [-Infinity]]) {
    assert.notEqual((await device.act(context)).id, null);
  }
});

test("a device that is stopped between mark and draw makes no report and has paid", () =>
  withClock(async (pass) => {
    const service = new Service(kernelPolicy());
    const inner = new MemoryStorage();
    const { device } = await made(service, { storage: inner });
    const { id } = await device.act({ x: 1 });
    const stopped = {
      read: (...of) => inner.read(...of),
      change: async (...of) => {
        await inner.change(...of);
        throw new Error("stopped");
      },
    };
    const { device: dying } = await made(service, { storage: stopped });
    await assert.rejects(dying.report(id, 1), /stopped/);
    assert.notEqual((await inner.read()).pending[0].drawing, null);
    assert.equal(await device.report(id, 1), true, "another tab may be at work");
    assert.equal((await device.ledger()).length, 0);
    pass(600);
    assert.equal(await device.report(id, 1), false);
    const [row] = await device.ledger();
    assert.deepEqual([row.state, row.body], ["lost", null]);
    assert.deepEqual([(await device.spending()).epsilon, service.bodies], [1, []]);
    assert.equal((await device.act({ x: 1 })).id, null);
  }));

test("a report is kept only under its own mark, and a policy used only on agreed terms", async () => {
  const service = new Service(kernelPolicy());
  const inner = new MemoryStorage();
  const { device } = await made(service, { storage: inner });
  const { id } = await device.act({ x: 1 });
  let changes = 0;
  const storage = {
    read: (...of) => inner.read(...of),
    change: async (...of) => {
      const result = await inner.change(...of);
      if (changes++ === 0) await inner.change((state) => (state.pending[0].drawing = "another"));
      return result;
    },
  };
  const { device: second } = await made(service, { storage });
  await assert.rejects(second.report(id, 1), InvalidInput);
  assert.deepEqual([await device.ledger(), service.bodies], [[], []]);
  await inner.change((kept) => {
    kept.text = textOf(kernelPolicy({ epsilon: 2 }));
  }, RECORD);
  await assert.rejects(
    (await made(service, { storage: inner })).device.act(untouchable),
    /epsilon 2/,
  );
});

test("a report that the service has is not refused by a slower answer", async () => {
  const service = new Service(kernelPolicy());
  const { device, storage } = await made(service);
  const { id } = await device.act({ x: 1 });
  service.fail = (method) => (method === "POST" ? answer(503, {}) : null);
  await device.report(id, 1);
  const { device: other } = await made(service, { storage });
  let accept;
  const accepted = new Promise((resolve) => (accept = resolve));
  let posts = 0;
  service.fail = async (method) => {
    if (method !== "POST" || posts++ === 0) return null;
    await accepted;
    return answer(403, { error: "revoked" });
  };
  await Promise.all([device.send().then(accept), other.send()]);
  assert.deepEqual([(await device.ledger())[0].state, posts], ["accepted", 2]);
});

test("whatever step of a storage fails, one report leaves at most", async () => {
  // Each operation fails before it is done, or after it.
  for (let step = 0; step < 40; step++) {
    for (const late of [false, true]) {
      const service = new Service(kernelPolicy());
      const inner = new MemoryStorage();
      let count = 0;
      const failing =
        (name) =>
        async (...of) => {
          const fails = count++ === step;
          if (fails && !late) throw new Error("the disk failed");
          const result = await inner[name](...of);
          if (fails) throw new Error("the disk failed");
          return result;
        };
      const storage = { change: failing("change"), read: failing("read") };
      let id = null;
      for (let attempt = 0; attempt < 4; attempt++) {
        const { device } = await made(service, { storage });
        try {
          id ??= (await device.act({ x: 1 })).id;
          await device.report(id, 1);
          await device.send();
        } catch (error) {
          assert.match(error.message, /the disk failed/);
        }
      }
      const state = await inner.read();
      assert.ok(service.stored.size <= 1, `step ${step}`);
      assert.ok(state.ledger.length + state.pending.length <= 1);
      for (const body of service.stored) assert.equal(body, state.ledger[0].body);
    }
  }
});

test("of two tabs one draws", async () => {
  // A module of its own: its calls are not in one line with those of the other.
  const { Device: Other } =
    await import("../../../../src/discreet/service/client/javascript/device.js?tab");
  for (let round = 0; round < 50; round++) {
    const service = new Service(kernelPolicy());
    const storage = new MemoryStorage();
    const { device } = await made(service, { storage });
    const other = new Other(URL_, "visits", {
      ...{ key: "dk_1", storage, agreed: service.terms.sha256 },
      ...{ fetch: service.fetch, patience: QUICK },
    });
    const choices = await Promise.all([device.act({ x: 1 }), other.act({ x: 9 })]);
    const ids = choices.map((choice) => choice.id).filter((id) => id !== null);
    assert.equal(ids.length, 1, "what one action costs is put by once");
    await Promise.all([device.report(ids[0], 1), other.report(ids[0], 0)]);
    await Promise.all([device.send(), other.send()]);
    assert.equal((await device.ledger()).length, 1);
    assert.equal(service.stored.size, 1);
    // Within one tab nothing is lost.
    const alone = new Service(kernelPolicy());
    const { device: single } = await made(alone);
    const { id } = await single.act({ x: 1 });
    await Promise.all([single.report(id, 1), single.report(id, 1), single.send()]);
    assert.equal(alone.stored.size, 1);
  }
});

test("a report that one tab is drawing is not lost by the send of another", async () => {
  const { Device: Other } =
    await import("../../../../src/discreet/service/client/javascript/device.js?sending");
  const service = new Service(kernelPolicy());
  const inner = new MemoryStorage();
  const { device } = await made(service, { storage: inner });
  const { id } = await device.act({ x: 1 });
  const options = { key: "dk_1", agreed: service.terms.sha256, fetch: service.fetch };
  const other = new Other(URL_, "visits", { ...options, storage: inner });
  const change = async (...of) => {
    const result = await inner.change(...of);
    await other.send();
    return result;
  };
  const storage = { read: (...of) => inner.read(...of), change };
  const { device: slow } = await made(service, { storage });
  assert.equal(await slow.report(id, 1), true);
  assert.equal(service.stored.size, 1);
});

test("nothing is lost where two tabs report what is late, whether a reward came or not", () =>
  withClock(async (pass) => {
    const { Device: Other } =
      await import("../../../../src/discreet/service/client/javascript/device.js?late");
    for (const holdSeconds of [0, 100]) {
      for (const told of [true, false]) {
        const service = new Service(kernelPolicy());
        const inner = new MemoryStorage();
        const slow = async (...of) => {
          await new Promise((resolve) => setTimeout(resolve, 1));
          return inner.change(...of);
        };
        const storage = { read: (...of) => inner.read(...of), change: slow };
        const options = { storage, rewardSeconds: 100, holdSeconds };
        const { device } = await made(service, options);
        const agreed = service.terms.sha256;
        const more = { key: "dk_1", agreed, fetch: service.fetch, patience: QUICK };
        const other = new Other(URL_, "visits", { ...options, ...more });
        const { id } = await device.act({ x: 1 });
        if (told) await device.report(id, 1);
        pass(101);
        await Promise.all([device.send(), other.send()]);
        assert.equal(service.stored.size, 1, `told ${told}, held ${holdSeconds}`);
      }
    }
  }));

test("the same bytes are sent until the service has them", async () => {
  const service = new Service(kernelPolicy());
  const { device } = await made(service);
  const { id } = await device.act({ x: 1 });
  service.fail = (method) => {
    if (method === "POST") throw new TypeError("no network");
    return null;
  };
  assert.equal(await device.report(id, 1), true);
  assert.equal((await device.ledger())[0].state, "waiting");
  await assert.rejects(device.send(), Unreachable);
  service.fail = (method) => (method === "POST" ? answer(200, { hello: 1 }) : null);
  await assert.rejects(device.send(), /not the service's/);
  service.fail = () => null;
  const [row] = await device.send();
  assert.equal(row.state, "accepted");
  assert.deepEqual(await device.send(), []);
  const sent = service.requests.filter(({ method }) => method === "POST").map(({ body }) => body);
  assert.deepEqual([new Set(sent).size, sent.length], [1, 1 + 3 + 1 + 1]);
});

test("a refused report is kept, and sent again when asked", async () => {
  const service = new Service(kernelPolicy());
  const { device } = await made(service);
  service.fail = (method) => (method === "POST" ? answer(403, { error: "revoked" }) : null);
  await device.report((await device.act({ x: 1 })).id, 1);
  const [row] = await device.ledger();
  assert.deepEqual([row.state, /revoked/.test(row.reason)], ["refused", true]);
  service.fail = () => null;
  assert.deepEqual(await device.send(), []);
  assert.equal((await device.send({ again: true })).length, 1);
  assert.deepEqual(service.bodies, [row.body]);
});

test("a paused study keeps a report waiting", async () => {
  const service = new Service(kernelPolicy());
  const { device } = await made(service);
  const { id } = await device.act({ x: 1 });
  service.state = "paused";
  service.fail = (method) => (method === "POST" ? answer(409, { error: "paused" }) : null);
  await device.report(id, 1);
  assert.equal((await device.ledger())[0].state, "waiting");
  await assert.rejects(device.send(), Unreachable);
  service.state = "finished";
  assert.deepEqual(await device.send(), []);
  assert.equal((await device.ledger())[0].state, "refused");
});

test("requests are retried after pauses that double, and refusals are not", async () => {
  const service = new Service(kernelPolicy());
  const pauses = [];
  const real = globalThis.setTimeout;
  globalThis.setTimeout = (run, milliseconds) => {
    pauses.push(milliseconds / 1000);
    return real(run, 0);
  };
  try {
    crypto.getRandomValues = (words) => words.fill(2n ** 64n - 1n);
    const patience = { attempts: 6, first: 0.5, longest: 3, timeout: 5 };
    const { device } = await made(service, { patience });
    service.fail = () => answer(503, { error: "later" });
    await assert.rejects(device.refresh(), (error) => error.status === 503);
    assert.equal(service.requests.length, 6);
    const bounds = [0.5, 1, 2, 3, 3];
    assert.deepEqual(
      pauses.map((pause) => pause.toFixed(9)),
      bounds.map((bound) => bound.toFixed(9)),
    );
    pauses.length = service.requests.length = 0;
    service.fail = () => answer(429, {}, { "Retry-After": "2" });
    await assert.rejects(device.refresh(), Unreachable);
    for (const pause of pauses) assert.ok(pause >= 2 && pause <= 2.5);
    pauses.length = service.requests.length = 0;
    service.fail = () => answer(503, {}, { "Retry-After": "4" });
    await assert.rejects(device.refresh(), Unreachable);
    assert.deepEqual([pauses, service.requests.length], [[], 1], "more than the patience");
    service.requests.length = 0;
    service.fail = () => answer(404, { error: "no study" });
    await assert.rejects(
      device.refresh(),
      (error) => error instanceof Refused && error.status === 404,
    );
    assert.equal(service.requests.length, 1);
  } finally {
    globalThis.setTimeout = real;
    delete crypto.getRandomValues;
  }
});

test("a reward that is late counts as missing, and so does one that never came", () =>
  withClock(async (pass) => {
    // At this epsilon a report is the truth but once in 10^12.
    const service = new Service(kernelPolicy({ max_contributions: 9, epsilon: 30 }));
    const { device } = await made(service, { missing: 1, rewardSeconds: DAY });
    const sign = async (id, reward) => {
      await device.report(id, reward);
      return reportsIn(service.bodies.at(-1))[0].signs[0][0];
    };
    const ids = [];
    for (let k = 0; k < 4; k++) ids.push((await device.act({ x: 1 })).id);
    assert.equal(await sign(ids[0], 0), -1);
    assert.equal(await sign(ids[1], 1), 1);
    pass(DAY);
    assert.equal(await sign(ids[2], 0), 1, "late");
    await device.send();
    assert.equal(service.bodies.length, 4);
    assert.equal(reportsIn(service.bodies[3])[0].signs[0][0], 1, "never came");
    assert.equal(await device.report(ids[3], 0), true);
    assert.equal(service.bodies.length, 4);
  }));

test("held reports leave in send alone, when they are due, in the order of their actions", () =>
  withClock(async (pass) => {
    const service = new Service(kernelPolicy({ max_contributions: 9 }));
    const { device } = await made(service, { holdSeconds: 100 });
    const ids = [];
    for (let k = 0; k < 3; k++) {
      ids.push((await device.act({ x: 1 })).id);
      pass(10);
    }
    for (const id of ids.toReversed()) await device.report(id, 1);
    await device.send();
    assert.deepEqual(service.bodies, []);
    pass(75); // 105 after the first action, 95 after the second
    await device.send();
    assert.equal(service.bodies.length, 1);
    pass(100);
    await device.send();
    const { id } = await device.act({ x: 1 });
    pass(200);
    await device.report(id, 1);
    assert.equal(service.bodies.length, 3, "a reward that comes after that sends nothing either");
    await device.send();
    ids.push(id);
    const rows = (await device.ledger()).sort((a, b) => a.due - b.due);
    assert.deepEqual(
      service.bodies,
      rows.map((row) => row.body),
    );
    assert.deepEqual(
      rows.map((row) => row.id),
      ids,
    );
  }));

for (const hold of [100, 100.3]) {
  test(`work before a held report leaves does not tell whether its reward came: ${hold}`, () =>
    withClock(async (pass) => {
      // Draws and transactions take time, which is seen between two requests. A hold that is no
      // whole number is a little less once it was added to a time.
      const works = [];
      for (const rewards of [[], [1], [0, 1], [NaN, 1], [null]]) {
        const work = [];
        const service = new Service(kernelPolicy());
        const inner = new MemoryStorage();
        const watched =
          (name) =>
          (...of) => {
            work.push(name);
            return inner[name](...of);
          };
        service.fail = (method) => {
          work.push(method);
          return null;
        };
        const storage = { change: watched("change"), read: watched("read") };
        const options = { storage, holdSeconds: hold, rewardSeconds: hold };
        const { device } = await made(service, options);
        pass(1.7e9 - Date.now() / 1000);
        const { id } = await device.act({ x: 1 });
        for (const reward of rewards) assert.equal(await device.report(id, reward), true);
        work.length = 0;
        for (const seconds of [hold, 1]) {
          pass(seconds);
          await device.send();
        }
        works.push(work);
        assert.equal(service.bodies.length, 1);
      }
      for (const work of works) assert.deepEqual(work, works[0]);
    }));
}

test("a held reward is the first that came in time", () =>
  withClock(async (pass) => {
    // At this epsilon a report is the truth but once in 10^12.
    const service = new Service(kernelPolicy({ max_contributions: 9, epsilon: 30 }));
    const options = { holdSeconds: 10, rewardSeconds: 100, missing: 0 };
    const { device, storage } = await made(service, options);
    const sign = () => reportsIn(service.bodies.at(-1))[0].signs[0][0];
    const { id } = await device.act({ x: 1 });
    await device.report(id, 1);
    await device.report(id, 0);
    pass(10);
    await device.send();
    assert.equal(sign(), 1);
    const late = (await device.act({ x: 1 })).id;
    await device.act({ x: 1 });
    pass(100);
    assert.equal(await device.report(late, 1), true);
    await device.send();
    assert.deepEqual([service.bodies.length, sign()], [3, -1]);
    assert.equal(reportsIn(service.bodies[1])[0].signs[0][0], -1, "late");
    assert.deepEqual((await storage.read()).pending, []);
  }));

test("a clock that is set back keeps no report forever and draws none again", () =>
  withClock(async (pass) => {
    const service = new Service(kernelPolicy({ max_contributions: 9 }));
    const { device } = await made(service, { holdSeconds: 100, rewardSeconds: 1000 });
    const first = (await device.act({ x: 1 })).id;
    await device.report(first, 1);
    await device.act({ x: 1 });
    pass(-50);
    await device.send();
    assert.deepEqual(service.bodies, [], "due later");
    pass(-950);
    await device.send();
    assert.equal(service.bodies.length, 2, "far from its action either way");
    pass(2000);
    assert.equal(await device.report(first, 0), true);
    await device.send();
    assert.equal(service.bodies.length, 2);
  }));

test("what a person allows covers all studies", async () => {
  const storage = new MemoryStorage();
  const service = new Service(kernelPolicy({ max_contributions: 3 }));
  const { device } = await made(service, { storage });
  await device.refresh();
  const another = new Service(kernelPolicy({ learner_id: "other", epsilon: 2 }));
  const { device: second } = await made(another, { storage });
  const other = new Device(URL_, "dose", {
    ...{ key: "dk_2", storage, agreed: another.terms.sha256, fetch: another.fetch },
  });
  assert.ok(second);
  assert.notEqual((await device.act({ x: 1 })).id, null);
  assert.notEqual((await other.act({ x: 1 })).id, null);
  assert.equal((await device.act({ x: 1 })).id, null, "3 is what the first study asked for");
  await device.allow(3.5);
  assert.equal((await device.act({ x: 1 })).id, null);
  await device.allow(4);
  assert.notEqual((await device.act({ x: 1 })).id, null);
  assert.equal((await device.spending()).epsilon, 4);
});

test("a source's person reports an action that was chosen elsewhere", async () => {
  const policy = sourcePolicy();
  const service = new Service(policy);
  const { device } = await made(service, { source: "clinic" });
  await assert.rejects(device.act({ x: 1 }), /observe/);
  const id = await device.observe({ x: 1 }, "visit");
  assert.equal(await device.observe({ x: 1 }, "visit"), null);
  await device.report(id, 1);
  const body = service.bodies[0];
  assert.equal(reportsIn(body)[0].source, "learner, source clinic");
  assert.match(body, /,"ids":\[\d{1,19}\]\}$/);
  assert.ok(
    service.requests.some(({ path }) => path === "/v1/studies/visits/sources/clinic/reports"),
  );
  const { device: target } = await made(service, { storage: new MemoryStorage() });
  await assert.rejects(target.act(untouchable), InvalidInput, "of another stream");
});

test("without a service and a policy people get the default arm and report nothing", async () => {
  const service = new Service(kernelPolicy());
  const { device } = await made(service);
  await device.agree(service.terms.sha256);
  service.fail = () => {
    throw new TypeError("no network");
  };
  const choice = await device.act(untouchable);
  assert.deepEqual(choice, {
    ...{ id: null, version: null, arm: 0, name: "call", propensity: 1, offered: false },
  });
  assert.equal(await device.report(choice.id, 1), false);
  service.fail = () => null;
  await device.refresh();
  service.fail = () => assert.fail("act makes no request where there is a policy");
  await device.act({ x: 1 });
});

test("a key travels over https alone, and studies with a shuffler are refused", async () => {
  const options = { key: "dk_1", storage: new MemoryStorage() };
  for (const url of ["http://example.org", "ftp://example.org", "no", "https://a:b@example.org"]) {
    assert.throws(() => new Device(url, "visits", options), InvalidInput);
  }
  assert.ok(new Device("http://127.0.0.1:8000", "visits", options));
  assert.ok(new Device("http://example.org", "visits", { ...options, allowHttp: true }));
  const policy = kernelPolicy();
  const service = new Service(policy, termsOf(policy, { group_size: 100, honest: 1 }));
  const { device } = await made(service);
  await assert.rejects(device.act(untouchable), /shuffler/);
});

test("the bytes of a report are those of the Python client", async () => {
  const policy = kernelPolicy({ learner_id: 'l"é\u{1f600}' });
  const service = new Service(policy);
  const { device } = await made(service);
  await device.report((await device.act({ x: 1 })).id, 1);
  const [body] = service.bodies;
  const [report] = reportsIn(body);
  const text =
    '{"kind": "signed-reports", "schema": 1, "policy_version": 3, ' +
    '"source": "l\\"\\u00e9\\ud83d\\ude00", ' +
    `"noise": "SecureNoise (OpenDP and the operating system's generator)", ` +
    `"public_coins": [${report.public_coins}], "places": [[${report.places}]], ` +
    `"signs": [[${report.signs}]]}`;
  assert.equal(body, `{"reports":[${JSON.stringify(text)}]}`);
});
