// node person.mjs URL STUDY KEY [SOURCE]: one person agrees, acts (or says what was chosen for
// them), and reports; prints what they saw and their ledger as JSON.

import { Device, MemoryStorage } from "../../../../src/discreet/service/client/javascript/index.js";

const [url, study, key, source = null] = process.argv.slice(2);
const device = new Device(url, study, { key, storage: new MemoryStorage(), source });
const terms = await device.terms();
await device.agree(terms.sha256);
const context = { age: 40, smoker: "no" };
const choice = source === null ? await device.act(context) : null;
const id = choice?.id ?? (await device.observe(context, "call"));
const made = await device.report(id, 1);
const refreshed = await device.refresh();
console.log(
  JSON.stringify({ sha256: terms.sha256, choice, made, refreshed, ledger: await device.ledger() }),
);
