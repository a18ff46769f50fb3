// node vectors.mjs DIR [--time]: whether this client decides and reports as the files of
// `discreet vectors DIR` say. Prints how many cases of each file agree; exits with 1 at the first
// that does not.

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { InvalidInput, act, checkTerms, readPolicy, readTerms, report } from "../../../../src/discreet/service/client/javascript/index.js";
import * as shuffling from "../../../../src/discreet/service/client/javascript/seal.js";
import { openedReport, pairOf } from "./opening.mjs";
import { listed, seeded } from "./words.mjs";

const STREAMS = ["kernel", "partition", "best_arm", "kernel_source", "forged", "shuffled"];
const folder = process.argv[2];
const timed = process.argv.includes("--time");
const sha256 = (text) => createHash("sha256").update(text).digest("hex");

const fail = (where, found, wanted) => {
  console.error(`${where}: found ${JSON.stringify(found)}, wanted ${JSON.stringify(wanted)}`);
  process.exit(1);
};
const read = (name) => {
  const path = join(folder, `${name}.json`);
  if (!existsSync(path)) fail(path, "no file", "one that `discreet vectors` wrote");
  const file = JSON.parse(readFileSync(path, "utf8"));
  if (file.format !== 1) fail(path, file.format, 1);
  return file;
};
const time = (name, calls, run) => {
  const start = performance.now();
  for (let call = 0; call < calls; call++) run(call);
  console.log(`  ${name}: ${((performance.now() - start) / calls).toFixed(3)} ms`);
};

for (const name of STREAMS) {
  const file = read(name);
  const policies = file.policies.map(({ policy: text, sha256: digest, terms: fields }, place) => {
    const where = `${name}, policy ${place}`;
    const policy = readPolicy(text, JSON.parse(text).stream);
    const terms = readTerms(fields, name === "shuffled" ? shuffling : null);
    if (sha256(text) !== digest) fail(`${where}, its SHA-256`, sha256(text), digest);
    if (sha256(terms.text) !== terms.sha256)
      fail(`${where}, terms`, sha256(terms.text), terms.sha256);
    checkTerms(policy, terms);
    return policy;
  });
  file.cases.forEach((each, place) => {
    const where = `${name}, case ${place}`;
    const policy = policies[each.policy];
    let action = each.action;
    if (policy.chooses) {
      const { arm, propensity } = act(policy, each.context, each.public_coin);
      if (arm !== each.arm) fail(`${where}, arm`, arm, each.arm);
      if (propensity !== each.propensity) fail(`${where}, propensity`, propensity, each.propensity);
      action = { arm, publicCoin: each.public_coin };
    }
    const noise = (Array.isArray(each.words) ? listed : seeded)(each.words);
    const made = report(policy, each.context, action, each.reward, noise);
    if (!isDeepStrictEqual(made, each.report)) fail(`${where}, report`, made, each.report);
  });
  console.log(`${name}: ${file.cases.length} cases agree`);
  if (timed && !["forged", "shuffled"].includes(name)) {
    const cases = file.cases.map((each) => [policies[each.policy], each]);
    const of = (call) => cases[call % cases.length];
    time("read a policy", 20, (call) => {
      const { policy } = file.policies[call % policies.length];
      readPolicy(policy, policies[call % policies.length].stream);
    });
    if (policies[0].chooses) {
      time("act", 500, (call) => act(of(call)[0], of(call)[1].context, 1 + call));
    }
    time("report", 500, (call) => {
      const [policy, each] = of(call);
      const action = policy.chooses ? { arm: each.arm, publicCoin: 1 + call } : each.action;
      report(policy, each.context, action, each.reward, seeded(call));
    });
  }
}

const { policies, cases: texts, secret, costs } = read("shuffled");
for (const [place, { policy, report: made, text }] of texts.entries()) {
  const { sha256: digest, terms } = policies[policy];
  const body = await shuffling.groupsOf(terms).sealed(made, digest);
  const pair = await pairOf(secret, terms.learner_key);
  const found = await openedReport(body, pair, terms.learner_key);
  if (found !== text) fail(`shuffled, text ${place}`, found, text);
}
for (const [place, { epsilon, group_size: group, delta, honest, cost }] of costs.entries()) {
  const found = shuffling.shuffledEpsilon(epsilon, group, delta, honest);
  if (Math.abs(found - cost) > 1e-9) fail(`shuffled, cost ${place}`, found, cost);
}
console.log(`shuffled: ${texts.length} texts and ${costs.length} costs agree`);

const refusals = read("refusals").cases;
for (const { name, policy, stream, terms } of refusals) {
  let refused = false;
  try {
    checkTerms(readPolicy(policy, stream), readTerms(terms));
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    refused = true;
  }
  if (!refused) fail(`refusals, ${name}`, "accepted", "refused");
}
console.log(`refusals: ${refusals.length} cases are refused`);
