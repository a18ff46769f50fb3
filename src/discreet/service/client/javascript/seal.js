// What a device needs beside for a study with a shuffler, which gives it this module as `shuffling`;
// pages of other studies do not load it.
//
// Reports are encrypted to the learner by HPKE (RFC 9180) in base mode with X25519, HKDF-SHA256 and
// AES-128-GCM, as discreet/service/hpke.py does. All under one policy have one length.

import { jsonText, need, number, sound, whole } from "./protocol.js";

const X25519 = { name: "X25519" };
const HMAC = { name: "HMAC", hash: "SHA-256" };
// Suites: the KEM alone, and with KDF and AEAD.
const KEM = [..."KEM"].map((each) => each.charCodeAt(0)).concat(0, 0x20);
const SUITE = [..."HPKE"].map((each) => each.charCodeAt(0)).concat(0, 0x20, 0, 1, 0, 1);
const NOTHING = new Uint8Array();
// Characters of JSON: of a number with what divides it from the next.
const NUMBER = 26;

const bytesOf = (text) => new TextEncoder().encode(text);
const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
const hmac = async (key, message) => {
  const imported = await crypto.subtle.importKey("raw", key, HMAC, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, message));
};
/** No salt is one of zeros. */
const extract = (suite, salt, label, secret) =>
  hmac(
    salt.length ? salt : new Uint8Array(32),
    joined(bytesOf("HPKE-v1"), suite, bytesOf(label), secret),
  );
/** One block of HKDF-Expand, of up to 32 bytes. */
const expand = async (suite, key, label, info, length) => {
  const labelled = joined([0, length], bytesOf("HPKE-v1"), suite, bytesOf(label), info, [1]);
  return (await hmac(key, labelled)).slice(0, length);
};

/** Key and nonce of the one message of a sender: `shared` is the Diffie-Hellman secret, `sent` the
 * sender's public key, which goes before the ciphertext. */
export const messageKey = async (shared, sent, received, info) => {
  const key = await extract(KEM, NOTHING, "eae_prk", shared);
  const secret = await expand(KEM, key, "shared_secret", joined(sent, received), 32);
  const context = joined(
    [0],
    await extract(SUITE, NOTHING, "psk_id_hash", NOTHING),
    await extract(SUITE, NOTHING, "info_hash", info),
  );
  const schedule = await extract(SUITE, secret, "secret", NOTHING);
  return {
    key: await expand(SUITE, schedule, "key", context, 16),
    nonce: await expand(SUITE, schedule, "base_nonce", context, 12),
  };
};

/** The sender's public key and the ciphertext of a text, for the holder of a public key (32 bytes).
 *
 * @param pair of the sender, one for each message; tests give one. */
export const sealed = async (text, received, info, additional = NOTHING, pair = null) => {
  const { privateKey, publicKey } =
    pair ?? (await crypto.subtle.generateKey(X25519, true, ["deriveBits"]));
  const to = await crypto.subtle.importKey("raw", received, X25519, true, []);
  const agreement = { ...X25519, public: to };
  const shared = new Uint8Array(await crypto.subtle.deriveBits(agreement, privateKey, 256));
  const sent = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  const { key, nonce } = await messageKey(shared, sent, received, info);
  const cipher = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
  const how = { name: "AES-GCM", iv: nonce, additionalData: additional };
  return joined(sent, new Uint8Array(await crypto.subtle.encrypt(how, cipher, text)));
};

const keyOf = (digits) => Uint8Array.from(digits.match(/../g), (each) => parseInt(each, 16));

// The key to which something was encrypted last.
let ready = null;

/** Make sure that reports can be encrypted to a key, before anything of a person is looked at. */
const checkKey = async (learnerKey) => {
  if (learnerKey === ready) return;
  const works = (trial) =>
    Promise.resolve()
      .then(trial)
      .then(
        () => true,
        () => false,
      );
  need(
    await works(() => crypto.subtle.generateKey(X25519, false, ["deriveBits"])),
    "this browser has no X25519 in WebCrypto, with which reports to a shuffler are encrypted; " +
      "open the page over https in Chrome 133, Firefox 130, Safari 17, or later.",
  );
  need(
    await works(() => sealed(NOTHING, keyOf(learnerKey), NOTHING)),
    "nothing can be encrypted to the learner_key of the terms; fetch them again.",
  );
  ready = learnerKey;
};

/** Characters of a report as JSON, all numbers as long as numbers get: enough for every report under
 * its policy, as Python counts them. */
const longest = (value) => {
  if (typeof value === "string") return jsonText(value).length;
  if (typeof value !== "object") return NUMBER;
  const named = !Array.isArray(value);
  return Object.entries(value).reduce(
    (sum, [name, each]) => sum + (named ? jsonText(name).length + 2 : 0) + 2 + longest(each),
    2,
  );
};

/** What is sent for one report through the shuffler. Under the SHA-256 of its policy alone the
 * ciphertext opens. */
const sealedBody = async (learnerKey, report, policy) => {
  const text = bytesOf(jsonText(report).padEnd(longest(report)));
  const info = bytesOf(`discreet report under policy ${policy}`);
  const bytes = await sealed(text, keyOf(learnerKey), info);
  // One by one: as arguments of one call a large report's are too many.
  const characters = Array.from(bytes, (byte) => String.fromCharCode(byte));
  return JSON.stringify({ policy, ciphertext: btoa(characters.join("")) });
};

// What groups hold: discreet/privacy/shuffling.py, step by step. Exponentials and logarithms differ
// in last bits between engines; the bound is rounded up by far more.

const BINS = 400;
const TAILS = 1e-15;
const ROUNDED_UP = 1 + 1e-7;
const HALVINGS = 36;
const LARGEST = 300;
// As a service serves at most.
const MOST_IN_GROUP = 10_000;

/** ln(n!), by Stirling's series. */
const logFactorial = (n) => {
  let product = 1;
  while (n < 12) product *= ++n;
  const series = 1 / (12 * n) - 1 / (360 * n ** 3) + 1 / (1260 * n ** 5);
  return (n + 0.5) * Math.log(n) - n + Math.log(2 * Math.PI) / 2 + series - Math.log(product);
};
/** P(Bin(number, chance) = at), for a chance below 1. */
const binomial = (number, chance, at) => {
  const ways = logFactorial(number) - logFactorial(at) - logFactorial(number - at);
  return Math.exp(ways + at * Math.log(chance) + (number - at) * Math.log1p(-chance));
};
/** Values of C and upper bounds of their probabilities; larger ones are counted as these. */
const clones = (others, chance) => {
  const mean = others * chance;
  const low = Math.max(Math.trunc(mean - 10 * Math.sqrt(mean)), 0);
  const high = Math.min(Math.trunc(mean + 10 * Math.sqrt(mean)) + 50, others);
  const mode = Math.min(Math.max(Math.trunc((others + 1) * chance), low), high);
  const odds = chance / (1 - chance);
  const mass = new Float64Array(high - low + 1);
  mass[mode - low] = binomial(others, chance, mode);
  for (let c = mode; c < high; c++) {
    mass[c + 1 - low] = mass[c - low] * ((others - c) / (c + 1)) * odds;
  }
  for (let c = mode; c > low; c--) {
    mass[c - 1 - low] = mass[c - low] * (c / ((others - c + 1) * odds));
  }
  const starts = new Set([high - low]);
  for (let bin = 0; bin < BINS; bin++) starts.add(Math.floor(bin * ((high - low) / BINS)));
  const shares = [];
  mass.forEach((each, place) => {
    if (starts.has(place)) shares.push([low + place, 0]);
    shares.at(-1)[1] += each;
  });
  return shares;
};

const shuffledDelta = (report, group, epsilon, honest) => {
  if (epsilon >= report) return 0;
  if (report < 1e-9) return report; // differences of p and e are lost
  const p = Math.exp(report);
  const e = Math.exp(epsilon);
  let delta = 0;
  for (const [count, share] of clones(Math.floor(honest * (group - 1)), 2 / (p + 1))) {
    const tokens = count + 1;
    const first = Math.trunc(tokens * ((e * p - 1) / ((e + 1) * (p - 1))));
    const last = Math.min(tokens, 0.5 * tokens + 5 * Math.sqrt(tokens) + 3);
    let ways = binomial(tokens, 0.5, first);
    let inner = 0;
    for (let a = first; a <= last; a++) {
      const gain = a * ((p - e) / (p + 1)) - (tokens - a) * ((e * p - 1) / (p + 1));
      inner += ways * Math.max(gain, 0);
      ways *= (tokens - a) / (a + 1);
    }
    delta += share * (2 / tokens) * inner;
  }
  return Math.min(delta * ROUNDED_UP + TAILS, 1);
};

// The one that was computed last; each act asks for it.
let [known, computed] = ["", 0];

/** The least epsilon, rounded up, at which groups of reports of epsilon `report` are private at
 * `delta`; `honest` is the share of the others who follow the protocol. */
export const shuffledEpsilon = (report, group, delta, honest) => {
  const asked = String([report, group, delta, honest]);
  if (report > LARGEST) return report;
  if (asked !== known) {
    let [low, high] = [0, report];
    for (let step = 0; step < HALVINGS; step++) {
      const middle = 0.5 * (low + high);
      if (shuffledDelta(report, group, middle, honest) <= delta) high = middle;
      else low = middle;
    }
    [known, computed] = [asked, high];
  }
  return computed;
};

/** What the fields of terms say of the shuffler, with what follows from it. */
export const groupsOf = (fields) => {
  const { honest, learner_key: learnerKey, delta } = fields;
  const groupSize = whole(fields.group_size, "group_size", 2, MOST_IN_GROUP);
  number(honest, "honest", 0, 1);
  sound(typeof learnerKey === "string" && /^[0-9a-f]{64}$/.test(learnerKey), "learner_key");
  // Two reports of a person may be in one group.
  whole(fields.max_contributions, "max_contributions", 1, 1);
  return {
    ...{ groupSize, honest, learnerKey },
    costOf: (epsilon) => ({
      epsilon: shuffledEpsilon(epsilon, groupSize, delta, honest),
      ...{ delta, reportEpsilon: epsilon },
    }),
    ready: () => checkKey(learnerKey),
    sealed: (report, policy) => sealedBody(learnerKey, report, policy),
  };
};
