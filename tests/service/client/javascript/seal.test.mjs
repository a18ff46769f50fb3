// Studies with a shuffler: what is encrypted, what groups hold, when a report leaves, what is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { InvalidInput, MemoryStorage } from "../../../../src/discreet/service/client/javascript/index.js";
import * as shuffling from "../../../../src/discreet/service/client/javascript/seal.js";
import {
  Service,
  deviceOf,
  kernelPolicy,
  partitionPolicy,
  termsOf,
  textOf,
  untouchable,
  withClock,
} from "./fixtures.mjs";
import { bytesOf, digitsOf, opened, openedReport, pairOf } from "./opening.mjs";

// RFC 9180, A.1.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode.
const RFC = {
  secret: "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
  open: "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
  sender: "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736",
  sent: "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
  info: "4f6465206f6e2061204772656369616e2055726e",
  text: "4265617574792069732074727574682c20747275746820626561757479",
  additional: "436f756e742d30",
  key: "4531685d41d65f03dc48f6b8302c05b0",
  nonce: "56d890e5accaaf011cff4b7d",
  ciphertext:
    "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a9" +
    "6d8770ac83d07bea87e13c512a",
};
const DELTA = 1e-6;
const GROUP = 100;
const EPSILON = shuffling.shuffledEpsilon(1, GROUP, DELTA, 1);

const policyOf = (changes = {}) => kernelPolicy({ group_size: GROUP, ...changes });
const shuffledTerms = (changes = {}, policy = policyOf()) =>
  termsOf(policy, {
    ...{ most_epsilon: EPSILON, delta: DELTA },
    ...{ group_size: GROUP, honest: 1, learner_key: RFC.open },
    ...changes,
  });
const made = (service, options) =>
  deviceOf("https://shuffler.example.org", service, {
    ...{ shuffling, rewardSeconds: 100 },
    ...options,
  });

test("messages are those of RFC 9180", async () => {
  const to = bytesOf(RFC.open);
  const [info, additional] = [RFC.info, RFC.additional].map(bytesOf);
  const pair = await pairOf(RFC.sender, RFC.sent);
  const found = await shuffling.sealed(bytesOf(RFC.text), to, info, additional, pair);
  assert.equal(digitsOf(found), RFC.sent + RFC.ciphertext);
  const receiver = await pairOf(RFC.secret, RFC.open);
  assert.equal(digitsOf(await opened(found, receiver, to, info, additional)), RFC.text);
  const agreement = { name: "X25519", public: receiver.publicKey };
  const shared = new Uint8Array(await crypto.subtle.deriveBits(agreement, pair.privateKey, 256));
  const { key, nonce } = await shuffling.messageKey(shared, bytesOf(RFC.sent), to, info);
  assert.deepEqual([key, nonce].map(digitsOf), [RFC.key, RFC.nonce]);
  for (const [text, about] of [
    [found.with(40, found[40] ^ 1), info],
    [found, bytesOf("00")],
  ]) {
    await assert.rejects(opened(text, receiver, to, about, additional));
  }
});

test("groups hold what Python's bound says", () => {
  // discreet.privacy.shuffling.shuffled_epsilon(report, group, delta, honest)
  const known = [
    [2.2721, 300, 1e-6, 1, 0.9992836176481156],
    [1, 100, 1e-6, 1, 0.5160506698157405],
    [0.05, 2, 1e-9, 1, 0.049999996193218973],
    [5.5, 10_000, 1e-6, 0.5, 1.7381213516709977],
    [80, 10_000, 1e-6, 1, 79.99999900115654],
    [301, 10, 1e-6, 1, 301],
    [1, 100, 0, 1, 1],
  ];
  for (const [report, group, delta, honest, epsilon] of known) {
    const found = shuffling.shuffledEpsilon(report, group, delta, honest);
    assert.ok(Math.abs(found / epsilon - 1) < 1e-9, `${[report, group, found, epsilon]}`);
  }
});

// The bytes of JSON are those of discreet.service.hpke.longest_json.
for (const [policy, size] of [
  [policyOf(), 342],
  [partitionPolicy(5, 2, { group_size: GROUP }), 398],
]) {
  test(`all reports of a ${policy.kind} are encrypted and have one length`, () =>
    withClock(async (pass) => {
      const receiver = await pairOf(RFC.secret, RFC.open);
      const lengths = new Set();
      for (const [x, reward] of [
        [1, 1],
        [9.5, 0],
        [null, null],
        [1e300, 0.123456789],
      ]) {
        const service = new Service(policy, shuffledTerms({}, policy));
        const { device } = made(service);
        const { id } = await device.act({ x });
        await device.report(id, reward);
        pass(100);
        const [row] = await device.send();
        assert.deepEqual(service.bodies, [row.body]);
        assert.deepEqual(Object.keys(JSON.parse(row.body)), ["policy", "ciphertext"]);
        const text = await openedReport(row.body, receiver, RFC.open);
        const { kind, policy_version: version, places } = JSON.parse(text);
        assert.deepEqual([kind, version], ["signed-reports", 3]);
        assert.equal(places[0].length, policy.size ?? 1);
        assert.equal(text.length, size);
        lengths.add(row.body.length);
        assert.deepEqual([row.epsilon, row.delta, row.reportEpsilon], [EPSILON, DELTA, 1]);
        const spending = { epsilon: EPSILON, delta: DELTA };
        const allowed = { mostEpsilon: EPSILON, mostDelta: DELTA };
        assert.deepEqual(await device.spending(), { ...spending, ...allowed });
        await device.allow(100, 0.1);
        assert.equal((await device.act({ x })).id, null);
        for (const { path } of service.requests) assert.ok(path.startsWith("/v1/studies/visits"));
      }
      assert.equal(lengths.size, 1);
    }));
}

test("a large report is encrypted, too", async () => {
  const report = { places: [Array(20_000).fill(1)] };
  const body = await shuffling.groupsOf(shuffledTerms()).sealed(report, "d");
  const text = await openedReport(body, await pairOf(RFC.secret, RFC.open), RFC.open);
  assert.deepEqual(JSON.parse(text), report);
});

test("what a person allows covers deltas, too", async () => {
  const service = new Service(policyOf(), shuffledTerms());
  const { device } = made(service);
  await device.agree(service.terms.sha256);
  await device.allow(100, DELTA / 2);
  assert.equal((await device.act({ x: 1 })).id, null);
  await device.allow(100, DELTA);
  assert.notEqual((await device.act({ x: 1 })).id, null);
});

test("the time of a report does not tell whether, or when, its reward came", () =>
  withClock(async (pass) => {
    // Under this and later versions of an app, which state another time.
    for (const later of [100, 10, 1000]) {
      const works = [];
      for (const rewards of [
        [],
        [[5, 1]],
        [
          [5, 0],
          [50, 1],
        ],
        [[150, 1]],
        [
          [5, 1],
          [150, 1],
        ],
      ]) {
        const service = new Service(policyOf(), shuffledTerms());
        const inner = new MemoryStorage();
        const work = [];
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
        const storage = { read: watched("read"), change: watched("change") };
        const { id } = await made(service, { storage }).device.act({ x: 1 });
        const { device } = made(service, { storage, rewardSeconds: later });
        const seen = [];
        for (let time = 0; time < 300; time += 10) {
          for (const [at, reward] of rewards) {
            const due = at >= time && at < time + 10;
            if (due) assert.equal(await device.report(id, reward), true);
          }
          work.length = 0;
          pass(10);
          await device.send();
          seen.push(work.includes("POST") ? [time + 10, ...work] : time + 10);
        }
        assert.equal(service.bodies.length, 1);
        works.push(seen.filter(Array.isArray));
      }
      // What one send does before its request, and when that is.
      for (const work of works) assert.deepEqual(work[0][0], 100);
      if (later === 100) for (const work of works) assert.deepEqual(work, works[0]);
    }
  }));

test("a second call of report sends nothing before a send", () =>
  withClock(async (pass) => {
    const service = new Service(policyOf(), shuffledTerms());
    const { device } = made(service);
    const { id } = await device.act({ x: 1 });
    pass(100);
    service.fail = (method) => {
      if (method === "POST") throw new TypeError("no network");
      return null;
    };
    await assert.rejects(device.send());
    service.fail = () => null;
    assert.equal(await device.report(id, 1), true, "drawn before, as missing");
    assert.deepEqual(service.bodies, []);
    await device.send();
    assert.equal(service.bodies.length, 1);
  }));

test("forged terms and policies are refused before a context is looked at", async () => {
  const bad = [
    { learner_key: "ab" },
    { learner_key: RFC.open.toUpperCase() },
    { learner_key: null },
    { learner_key: [RFC.open] },
    { learner_key: "00".repeat(32) },
    { learner_key: undefined },
    { honest: undefined },
    { honest: 2 },
    { honest: "1" },
    { group_size: undefined },
    { group_size: 1 },
    { group_size: 2.5 },
    { group_size: null },
    { group_size: 1e9 },
    { max_contributions: 2 },
  ];
  for (const changes of bad) {
    const service = new Service(policyOf(), shuffledTerms(changes));
    service.terms = JSON.parse(JSON.stringify(service.terms));
    const { sha256: _, ...fields } = service.terms;
    service.terms = termsOf(policyOf(), fields);
    const { device, storage } = made(service);
    await assert.rejects(device.act(untouchable), InvalidInput, JSON.stringify(changes));
    assert.deepEqual((await storage.read()).agreements ?? [], []);
  }
  for (const changes of [
    { epsilon: 1.001 },
    { epsilon: 400 },
    { group_size: GROUP - 1 },
    { group_size: GROUP + 1 },
    { group_size: 1 },
    { group_size: undefined },
    { group_size: `${GROUP}` },
    { honest: 0.5 },
  ]) {
    const service = new Service(policyOf(), shuffledTerms());
    service.policy = textOf(JSON.parse(JSON.stringify(policyOf(changes))));
    await assert.rejects(made(service).device.act(untouchable), /but the terms/);
  }
  const alone = new Service(kernelPolicy());
  alone.policy = textOf(policyOf());
  await assert.rejects(made(alone).device.act(untouchable), /groupSize 100, but the terms 1/);
  const service = new Service(policyOf(), shuffledTerms());
  await assert.rejects(
    made(service, { shuffling: null }).device.act(untouchable),
    /import seal.js/,
  );
  const agreed = service.terms.sha256;
  service.terms = shuffledTerms({ learner_key: RFC.sent });
  await assert.rejects(made(service, { agreed }).device.act(untouchable), /asks for/);
});

test("without X25519 nothing is agreed to, and the error says what to do", async () => {
  // Another key than before, so that it is tried.
  const service = new Service(policyOf(), shuffledTerms({ learner_key: RFC.sent }));
  const { device, storage } = made(service);
  const real = crypto.subtle.generateKey;
  crypto.subtle.generateKey = () => Promise.reject(new Error("NotSupportedError"));
  try {
    await assert.rejects(device.act(untouchable), /no X25519 .*open the page over https in Chrome/);
    assert.deepEqual(await storage.read(), {});
  } finally {
    crypto.subtle.generateKey = real;
  }
  assert.notEqual((await device.act({ x: 1 })).id, null);
});
