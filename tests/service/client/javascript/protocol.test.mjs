// The law of a report, exactly; and what is refused before data.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  InvalidInput,
  act,
  checkTerms,
  readPolicy,
  readTerms,
  report,
  secureNoise,
} from "../../../../src/discreet/service/client/javascript/index.js";
import { kernelPolicy, partitionPolicy, sourcePolicy, termsOf, textOf } from "./fixtures.mjs";
import { listed } from "./words.mjs";

const WORDS = 2n ** 64n;
const read = (fields) => readPolicy(textOf(fields), fields.stream);

/** Every order of some things. */
const orders = (things) =>
  things.length < 2
    ? [things]
    : things.flatMap((first, place) =>
        orders(things.toSpliced(place, 1)).map((rest) => [first, ...rest]),
      );
/** Every choice of one element of each list. */
const product = (lists) =>
  lists.reduce((rows, list) => rows.flatMap((row) => list.map((each) => [...row, each])), [[]]);
const range = (count) => Array.from({ length: count }, (_, k) => k);

/** The law of a report of signed subset selection, in units of 2^-64 over `common`: one word for
 * each class of words, with the number of words in it. Words of whole numbers below n count as
 * uniform on 0 .. n - 1; keys as all orders. */
const lawOf = (policy, context, reward) => {
  const { mechanism: { places, size }, hidden } = policy;
  const law = new Map();
  let paths = 0;
  const keyed =
    size === 1
      ? range(Math.max(places - 1, 1)).map((word) => [word])
      : size === places
        ? [[]]
        : orders(range(places).map((k) => k + 1));
  for (const hide of [true, false]) {
    for (const [wrong, keys, flips] of product([
      range(2 * places - size),
      keyed,
      product(range(size).map(() => [0, 1])),
    ])) {
      // Both ends of a class lead to one report.
      const [first, last] = hide ? [0n, hidden - 1n] : [hidden, WORDS - 1n];
      const made = [first, last].map((word) => {
        const noise = listed([0n, word, wrong, ...keys, ...flips]);
        const action = policy.chooses ? { arm: 0, publicCoin: 1 } : 0;
        const { places: at, signs } = report(policy, context, action, reward, noise);
        return `${at} ${signs}`;
      });
      assert.equal(made[0], made[1]);
      law.set(made[0], (law.get(made[0]) ?? 0n) + (hide ? hidden : WORDS - hidden));
      paths += 1;
    }
  }
  return { law, common: BigInt(paths / 2) };
};

const CASES = [
  ["randomised response on 4 values", kernelPolicy(), [{ x: 1 }, { x: 9 }]],
  ...[
    [1, 1],
    [3, 1],
    [3, 2],
    [4, 2],
    [5, 2],
    [3, 3],
  ].map(([bins, size]) => [
    `${size} of ${bins} bins`,
    partitionPolicy(bins, size, { epsilon: 1.5 }),
    range(bins).map((k) => ({ x: 10 * (1 - 0.75 * 2 ** -k) })),
  ]),
];
for (const [name, fields, contexts] of CASES) {
  test(`no report is more than e^epsilon times as likely from one person: ${name}`, () => {
    const policy = read(fields);
    const { mechanism: { places, size }, hidden } = policy;
    const values = contexts.flatMap((context) => [0, 1].map((reward) => [context, reward]));
    const laws = values.map(([context, reward]) => lawOf(policy, context, reward));
    const all = new Set(laws.flatMap(({ law }) => [...law.keys()]));
    const sets = orders(range(places)).length / orders(range(size)).length;
    const subsets = (sets / orders(range(places - size)).length) * 2 ** size;
    assert.equal(all.size, subsets);
    // h over the sets without the truth, 1 - h over those with it: R is their ratio.
    const [with_, without] = [(WORDS - hidden) * BigInt(2 * places - size), hidden * BigInt(size)];
    for (const { law, common } of laws) {
      const chances = [...all].map((key) => law.get(key) ?? 0n);
      assert.equal(
        chances.reduce((a, b) => a + b),
        WORDS * common,
      );
      const kinds = [...new Set(chances)].sort((a, b) => (a < b ? 1 : -1));
      assert.ok(kinds.length <= 2 && kinds.at(-1) > 0n);
      if (kinds.length === 2) assert.equal(kinds[0] * without, kinds[1] * with_);
    }
    // The ratio is e^epsilon to the 15 digits of a double, and the next coin is beyond it.
    const ratio = Number((with_ * 10n ** 30n) / without) / 1e30;
    assert.ok(Math.abs(ratio / Math.exp(policy.epsilon) - 1) < 1e-12);
  });
}

test("coins are those of Python's exact arithmetic", () => {
  // discreet.privacy.noise.hiding_probability(Fraction(m, 2 * J), epsilon) * 2**64
  const known = [
    [1, 1, 1, 4961093570831980854n],
    [2, 1, 1e-6, 13835054596516785201n],
    [5, 2, 1, 10983012945701703704n],
    [3, 1, 30, 8630884n],
    [4, 1, 0.1, 15931460276549554200n],
  ];
  for (const [bins, size, epsilon, hidden] of known) {
    assert.equal(read(partitionPolicy(bins, size, { epsilon })).hidden, hidden);
  }
  const cells = { count: 256, axis: [Array(511).fill(-1)], cut: [Array(511).fill(0)] };
  const many = kernelPolicy({
    cells: { ...cells, child: cells.axis.map((row) => row.map(() => 0)) },
  });
  assert.equal(read({ ...many, epsilon: 1e4 }).hidden, 1n);
  assert.throws(() => read(kernelPolicy({ epsilon: 1e-20 })), InvalidInput);
});

test("a place in a report does not tell how the policy wrote it", () => {
  const text = textOf(kernelPolicy()).replace('"child":[[1,0,1]]', '"child":[[1,-0,1]]');
  const words = [0n, WORDS - 1n, 0, 0, 0];
  const made = report(readPolicy(text), { x: 1 }, { arm: 0, publicCoin: 1 }, 1, listed(words));
  assert.deepStrictEqual(made.places, [[0]], "not -0, which is no place of another person");
});

test("a label takes linear time, however long it is", () => {
  const labels = { levels: [2], categories: [["no", "yes"]] };
  const domain = { ...kernelPolicy().domain, ...labels };
  const policy = read(kernelPolicy({ domain, density: [1, 1] }));
  const armOf = (x) => act(policy, { x }, 1).arm;
  const start = performance.now();
  const space = " ".repeat(2e6);
  assert.equal(armOf(`${space}yes${space}`), armOf("yes"));
  assert.equal(armOf(`yes${space}yes`), armOf(null));
  assert.equal(armOf(`${space.repeat(10)}yes`), armOf("yes"), "no stack of 2e7 steps");
  assert.ok(performance.now() - start < 30_000);
});

test("a reward is rounded to a sign by one word", () => {
  // At this epsilon a report is the truth but once in 10^12.
  const policy = read(kernelPolicy({ epsilon: 30, reward_bounds: { lower: -1, upper: 3 } }));
  const sign = (reward, word) => {
    const noise = listed([word, WORDS - 1n, 0, 0, 0]);
    return report(policy, { x: 1 }, { arm: 0, publicCoin: 1 }, reward, noise).signs[0][0];
  };
  const half = WORDS / 2n;
  const rows = [
    [1, half - 1n, 1],
    [1, half, -1],
    [NaN, half - 1n, 1],
    [null, half, -1],
    [99, WORDS - 1n, 1],
    [3, WORDS - 1n, 1],
    [-1, 0n, -1],
    [-Infinity, 0n, -1],
  ];
  for (const [reward, word, wanted] of rows) assert.equal(sign(reward, word), wanted, reward);
});

test("words beyond the last whole cycle are drawn again, and so are keys that tie", () => {
  const source = read(
    sourcePolicy({
      cells: kernelPolicy().cells,
      directions: Array(3).fill([
        [1, 0],
        [1, 0],
      ]),
    }),
  );
  const noise = listed([WORDS - 1n, 5, 0, WORDS - 1n, 0, 0, 0]); // 2^64 mod 3 = 1
  assert.deepEqual(report(source, { x: 1 }, 1, 1, noise).public_coins, [2]);
  const policy = read(partitionPolicy(4, 2));
  // Not included: the own key is the largest; 7 and 7 tie for the last place, then 1 and 2 win.
  const words = [0, 0, 5, 9, 3, 7, 7, 9, 8, 1, 2, 0, 0];
  const made = report(policy, { x: 1 }, { arm: 0, publicCoin: 1 }, 1, listed(words));
  assert.deepEqual(made.places, [[2, 3]]);
});

test("the operating system's words have the law of a report", () => {
  // Hoeffding: each share is off by t with probability 2 exp(-2 n t^2) = 2e-10 at most; of 4
  // values and 2 people one is with probability 2e-9.
  const policy = read(kernelPolicy());
  const people = 20_000;
  const off = Math.sqrt(Math.log(1e10) / (2 * people));
  const truth = Math.E / (Math.E + 3);
  for (const [context, reward, own] of [
    [{ x: 1 }, 1, "0 1"],
    [{ x: 9 }, 0, "1 -1"],
  ]) {
    const counts = new Map();
    for (let k = 0; k < people; k++) {
      const made = report(policy, context, { arm: 0, publicCoin: k }, reward, secureNoise);
      const key = `${made.places[0]} ${made.signs[0]}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    assert.equal(counts.size, 4);
    for (const [key, count] of counts) {
      const wanted = key === own ? truth : (1 - truth) / 3;
      assert.ok(Math.abs(count / people - wanted) < off, `${key}: ${count}`);
    }
  }
});

test("what is no policy of these terms is refused before data", () => {
  const damage = (path, value) => (policy) => {
    const copy = structuredClone(policy);
    const keys = path.split(".");
    const last = keys.pop();
    keys.reduce((at, key) => at[key], copy)[last] = value;
    return copy;
  };
  const forged = [
    ["kind", "joint-kernel-policy"],
    ["kind", "__proto__"],
    ["schema", 2],
    ["surprise", 1],
    ["group_size", 2],
    ["honest", 0.5],
    ["stream", "clinic"],
    ["version", 2 ** 53],
    ["version", -1],
    ["learner_id", ""],
    ["arms", 1],
    ["arm_names", ["call", "call"]],
    ["epsilon", 0],
    ["epsilon", null],
    ["epsilon", 1.0000001],
    ["max_contributions", 2],
    ["domain.upper.0", 11],
    ["domain.upper", []],
    ["domain.upper", null],
    ["domain.lower.0", 10],
    ["domain.levels.0", 1],
    ["reward_bounds.upper", 2],
    ["reward_bounds.upper", -1],
    ["frequencies", []],
    ["frequencies", [[1], [1]]],
    ["frequencies.1.0", 64],
    ["ranks.knots.0.1", 0],
    ["ranks.knots.0.2", 0.9],
    ["values", null],
    ["values.0.0.1", 7.5 * 2 ** 20 + 1],
    ["values.0.0.1", 0.5],
    ["values.0.0.1", "1"],
    ["directions.0.1", [1]],
    ["cells.count", 257],
    ["cells.axis.0.0", 1],
    ["cells.child.0.0", 0],
    ["cells.child.0.0", 2],
    ["cells.child.0.1", 2],
    ["density", [0]],
    ["clipping_range", null],
    ["clipping_range", [0.5, 0.5]],
    ["clipping_range", [0, 0.5, 1]],
    ["clipping_range", [0.5, 1.5]],
    ["thresholds", null],
    ["thresholds", [0.5]],
    ["thresholds", [-0.5, 0.5]],
    ["varies", false],
  ].map(([path, value]) => [path, kernelPolicy(), damage(path, value)]);
  const partitions = [
    ["size", 0],
    ["size", 5],
    ["bins.tree.nodes.1", 0],
    ["bins.tree.nodes.0", 1],
    ["bins.tree.axes.0", 1],
    ["bins.tree.dimension", 2],
    ["bins.active.0", [false, false]],
    ["bins.active.0", [true, false]],
    ["bins.active.0.0", 1],
    ["offers.0.0", 0.5],
    ["offers.0.0", -0.25],
    ["stream", "clinic"],
    ["epsilon", null],
  ].map(([path, value]) => [path, partitionPolicy(4, 2), damage(path, value)]);
  for (const [path, policy, change] of [...forged, ...partitions]) {
    const terms = readTerms(termsOf(policy));
    checkTerms(readPolicy(textOf(policy)), terms);
    assert.throws(() => checkTerms(readPolicy(textOf(change(policy))), terms), InvalidInput, path);
  }
  for (const text of ["", "1", "null", "[]", "{", '{"kind": 1}']) {
    assert.throws(() => readPolicy(text), InvalidInput);
  }
  // Terms are compared before what a hostile sender can make large.
  const agreed = partitionPolicy(4, 2);
  const worse = { ...agreed, max_contributions: 7, bins: "not read" };
  const terms = readTerms(termsOf(agreed));
  assert.throws(() => readPolicy(textOf(worse), "target", terms), /maxContributions 7/);
  const deep = partitionPolicy(34, 2);
  assert.throws(() => readPolicy(textOf(deep)), InvalidInput, "deeper than any learner grows");
});

test("long arrays are base64 text of their numbers", () => {
  const numbers = [0, 0.25, 1];
  const float64 = Buffer.from(Float64Array.from(numbers).buffer).toString("base64");
  const policy = (knots) => kernelPolicy({ ranks: { knots, stage: 0, asked: [] } });
  const shape = [1, 3];
  assert.deepEqual(read(policy({ shape, float64 })), read(policy([numbers])));
  const infinite = Buffer.from(Float64Array.of(0, Infinity, 1).buffer).toString("base64");
  for (const knots of [
    { shape: [3, 1], float64 },
    { shape: [3], float64 },
    { shape: [1, 2], float64 },
    { shape: [1, 3.5], float64 },
    { shape, float64: infinite },
    { shape, float64: float64.slice(0, -1) },
    { shape, float64: `${float64.slice(0, -4)}A===` },
    { shape, float64: ` ${float64.slice(1)}` },
    { shape, float64: null },
    { shape, float64, more: 1 },
    "text",
    null,
  ]) {
    assert.throws(() => read(policy(knots)), InvalidInput);
  }
  const many = 2 ** 19 + 1;
  const knots = Float64Array.from({ length: many }, (_, k) => k / (many - 1));
  const long = Buffer.from(knots.buffer).toString("base64");
  assert.equal(read(policy({ shape: [1, many], float64: long })).knots[0].length, many);
});

test("several reports at a delta count as their sum", () => {
  const policy = kernelPolicy({ max_contributions: 2 });
  const terms = readTerms(termsOf(policy, { most_epsilon: 1.9, delta: 1e-6 }));
  assert.throws(() => checkTerms(readPolicy(textOf(policy)), terms), /epsilon 2/);
});

test("a person's public coin chooses with the stated propensities", () => {
  const policy = read(partitionPolicy(4, 2));
  const people = 20_000;
  let second = 0;
  for (let coin = 0; coin < people; coin++) second += act(policy, { x: 1 }, coin).arm;
  // Public coins 0, 1, ..: no chance. Their shares are as close as those of random ones.
  assert.ok(Math.abs(second / people - 0.75) < Math.sqrt(Math.log(1e10) / (2 * people)));
});

test("features of many columns are taken as long as sums of them are exact", () => {
  // 2^8 features of 8 columns of two levels, as learners make them: sizes add up to 1154.
  const ends = (value) => Array(8).fill(value);
  const domain = { lower: ends(0), upper: ends(1), names: [..."abcdefgh"], levels: ends(2) };
  const all = range(256).map((bits) => range(8).map((axis) => (bits >> axis) & 1));
  const coefficients = (value, count) => [Array(2).fill(Array(count).fill(value))];
  const policyOf = (frequencies) =>
    kernelPolicy({
      domain: { ...domain, categories: ends([]) },
      frequencies,
      ranks: { knots: ends([0, 1]), stage: 0, asked: [] },
      values: coefficients(1, frequencies.length),
      directions: coefficients(7.5 * 2 ** 20, frequencies.length),
      density: [1],
    });
  assert.equal(act(read(policyOf(all)), ends(1), 1).propensity, 1);
  const of = (count) =>
    range(count).map((k) => range(8).map((axis) => (axis < 4 ? 1 + ((k >> (3 * axis)) & 7) : 0)));
  read(policyOf(of(4095)));
  assert.throws(() => read(policyOf([...of(4095), ends(1)])), InvalidInput);
});

test("terms whose columns lack what indicators need are refused", () => {
  const terms = termsOf(kernelPolicy());
  const read = (changes) => {
    const [lower, upper, levels] = [[0, 0], [1, 1], [null, 2]];
    const domain = { lower, upper, levels, names: ["a", "a = 0"], categories: [[], ["no", "yes"]] };
    return readTerms({ ...terms, domain: { ...domain, indicators: [[0], []], ...changes } });
  };
  assert.deepEqual(read({}).domain.indicators, [[0], []]);
  const labels = { levels: [2, 2], categories: [["x", "y"], ["no", "yes"]] };
  const unknown = { names: ["a", "a unknown"], unknown: [true, false], indicators: [] };
  read({ ...unknown });
  for (const changes of [
    { names: ["a", "b"] },
    { names: ["a", "a = 2"], indicators: [[2], []] },
    { names: ["a", "a = 0"], indicators: [["0"], []] },
    { unknown: [true, false] },
    labels,
    { ...labels, ...unknown },
  ]) {
    assert.throws(() => read(changes), InvalidInput, JSON.stringify(changes));
  }
});
