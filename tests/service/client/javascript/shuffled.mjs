// node shuffled.mjs URL STUDY: devices of a study with a shuffler. Reads JSON from standard input:
// `agreed`, the SHA-256 of the terms; `keys`, one for each device; and `sealed`, a body that Python
// made, with the pair of keys that opens it. Prints, as JSON, the ledger of each device, and the
// text that was opened.

import { readFileSync } from "node:fs";
import { Device, MemoryStorage } from "../../../../src/discreet/service/client/javascript/index.js";
import * as shuffling from "../../../../src/discreet/service/client/javascript/seal.js";
import { openedReport, pairOf } from "./opening.mjs";

const [url, study] = process.argv.slice(2);
const { agreed, keys, sealed } = JSON.parse(readFileSync(0, "utf8"));
const real = Date.now;
let ahead = 0;
Date.now = () => real() + ahead;
const ledgers = [];
for (const [place, key] of keys.entries()) {
  const storage = new MemoryStorage();
  const device = new Device(url, study, { key, storage, agreed, shuffling, rewardSeconds: 60 });
  const { id } = await device.act([0.1 * (place % 10), 0.5]);
  await device.report(id, place % 2);
  const early = [...(await device.send()), ...(await device.ledger())].length;
  ahead += 61_000;
  await device.send();
  const again = (await device.act([0.5, 0.5])).id;
  ledgers.push({ early, again, rows: await device.ledger(), spent: await device.spending() });
}
const pair = await pairOf(sealed.secret, sealed.open);
const opened = await openedReport(sealed.body, pair, sealed.open);
console.log(JSON.stringify({ ledgers, opened }));
