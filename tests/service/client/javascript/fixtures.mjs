// Small policies, terms and a service, for tests.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Device, MemoryStorage } from "../../../../src/discreet/service/client/javascript/index.js";
import { canonicalJson } from "../../../../src/discreet/service/client/javascript/protocol.js";

export const sha256 = (text) => createHash("sha256").update(text).digest("hex");

const DOMAIN = { lower: [0], upper: [10], names: ["x"], levels: [null], categories: [[]] };
const HEADER = {
  version: 3,
  learner_id: "learner",
  domain: DOMAIN,
  reward_bounds: { lower: 0, upper: 1 },
  public_seed: 7,
  max_contributions: 1,
  arms: 2,
  arm_names: ["call", "visit"],
};

/** A policy of two cells: arm 0 below 5, sign functions that are 1. */
export const kernelPolicy = (changes = {}) => ({
  kind: "local-kernel-policy",
  ...HEADER,
  frequencies: [[0], [1]],
  ranks: { knots: [[0, 0.5, 1]], stage: 0, asked: [] },
  values: [
    [
      [0, 1],
      [0, -1],
    ],
  ],
  directions: [
    [
      [1, 0],
      [1, 0],
    ],
  ],
  cells: { count: 2, axis: [[0, -1, -1]], cut: [[0.5, 0, 0]], child: [[1, 0, 1]] },
  density: Array(24).fill(1),
  epsilon: 1,
  ...changes,
});

/** The same for a source: cells of contexts and arms. */
export const sourcePolicy = (changes = {}) =>
  kernelPolicy({ values: null, stream: "clinic", density: Array(48).fill(1), ...changes });

/** A policy of `bins` open bins from left to right, of which a report names `size`. */
export const partitionPolicy = (bins, size, changes = {}) => {
  const nodes = Array.from({ length: bins - 1 }, (_, place) => 2 * place);
  return {
    kind: "partition-policy",
    ...HEADER,
    bins: {
      tree: { dimension: 1, nodes, axes: nodes.map(() => 0) },
      active: Array(bins).fill([true, true]),
    },
    offers: Array(bins).fill([0.25, 0.75]),
    size,
    epsilon: 1,
    ...changes,
  };
};

export const textOf = (policy) => canonicalJson(policy);

export const termsOf = (policy, changes = {}) => {
  const fields = {
    domain: policy.domain,
    space: policy.arms,
    arm_names: policy.arm_names,
    most_epsilon: policy.epsilon * policy.max_contributions,
    reward_bounds: policy.reward_bounds,
    delta: 0,
    max_contributions: policy.max_contributions,
    ...changes,
  };
  return { ...fields, sha256: sha256(canonicalJson(fields)) };
};

/** A service behind `fetch`. `fail` is called before each answer, and may throw or give another. */
export class Service {
  requests = [];
  bodies = [];
  stored = new Set();
  state = "running";
  fail = () => null;

  constructor(policy, terms = termsOf(policy)) {
    this.policy = textOf(policy);
    this.terms = terms;
  }

  fetch = async (url, { method, headers, body }) => {
    const path = new URL(url).pathname;
    this.requests.push({ method, path, headers, body });
    const other = await this.fail(method, path);
    return other ?? this.#answer(method, path, headers, body);
  };

  #answer(method, path, headers, body) {
    if (path.endsWith("/terms")) return answer(200, this.terms);
    if (path.endsWith("/policy")) {
      const etag = `"${sha256(this.policy)}"`;
      if (headers["If-None-Match"] === etag) return new Response(null, { status: 304 });
      return new Response(this.policy, { headers: { ETag: etag } });
    }
    if (method === "POST") {
      this.bodies.push(body);
      const repeated = this.stored.has(body);
      this.stored.add(body);
      return answer(202, { stored: Number(!repeated), repeated: Number(repeated) });
    }
    return answer(200, { state: this.state, default_arm: "call" });
  }
}

export const answer = (status, fields, headers = {}) =>
  new Response(JSON.stringify(fields), { status, headers });

/** The reports in a body. */
export const reportsIn = (body) => JSON.parse(body).reports.map((text) => JSON.parse(text));

export const QUICK = { attempts: 3, first: 0.001, longest: 0.005, timeout: 5 };

/** A device of the study at this address, and its storage. */
export const deviceOf = (url, service, options = {}) => {
  const storage = options.storage ?? new MemoryStorage();
  const device = new Device(url, "visits", {
    ...{ key: "dk_1", storage, agreed: service.terms.sha256, fetch: service.fetch },
    patience: QUICK,
    ...options,
  });
  return { device, storage };
};

/** A clock that tests set. */
export const withClock = async (run) => {
  const real = Date.now;
  let time = 1_700_000_000_000;
  Date.now = () => time;
  try {
    await run((seconds) => (time += 1000 * seconds));
  } finally {
    Date.now = real;
  }
};
/** A context that nothing may look at. */
export const untouchable = new Proxy(
  {},
  new Proxy({}, { get: () => () => assert.fail("the context was looked at") }),
);
