// A person's side under local privacy: acts without the service, and makes one report that is
// private when it leaves. The same steps as discreet.service.client.Device; what the service learns
// beside the reports is stated there.
//
// A report is drawn once. Its action is marked, on the disk, before anything is drawn, and a marked
// action is never drawn. The report is kept in one transaction with its row of the ledger before it
// is seen; from then on the same bytes are sent.
//
// The state, one record of the storage:
//
//     budget       {epsilon, delta} that the person may pay over all studies, or null
//     agreements   terms that the person agreed to, of one study of one service, and the digest of
//                  the current policy on them
//     pending      an action until its report is drawn: what it will cost, and in place of the
//                  context what the report is drawn from; private
//     ledger       a report: what it cost, when, to whom, its bytes; never taken away
//
// The text of a policy is a record of its own for each study, so that an act does not write it. It
// is written before the state names its digest. A record with another digest, as two tabs or a
// crash may leave it, counts as none, and the policy is fetched again.

import { secureNoise } from "./noise.js";
import {
  InvalidInput,
  actAt,
  armNumber,
  checkReward,
  checkTerms,
  coinOf,
  jsonText,
  need,
  parsed,
  placeAt,
  publicCoin,
  readPolicy,
  readTerms,
  reportAt,
  unitOf,
} from "./protocol.js";

const MONTH = 2_592_000;
// Seconds for which a tab that marked a report may still be drawing it.
const AT_WORK = 600;
// Epsilons add with roundings.
const ROUNDING = 1 + 1e-9;
// Temporary refusals: too slow, too early, too many.
const LATER = [408, 425, 429];
const LOCAL = ["localhost", "127.0.0.1", "[::1]"];
const MOST_SHOWN = 500;
const PATIENCE = { attempts: 6, first: 0.5, longest: 60, timeout: 10 };

/** The service refused a request, which is not sent again; `status` is that of its answer. */
export class Refused extends InvalidInput {
  name = "Refused";
}

/** The service did not answer, or cannot work now; what was to be sent is kept. */
export class Unreachable extends Error {
  name = "Unreachable";

  constructor(message, status = null) {
    super(message);
    this.status = status;
  }
}

const now = () => Date.now() / 1000;
const identifier = () => crypto.randomUUID();
/** A text has the SHA-256 that the service names. */
const checkDigest = async (what, text, named) => {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const digits = (byte) => byte.toString(16).padStart(2, "0");
  const digest = Array.from(new Uint8Array(bytes), digits).join("");
  need(
    digest === named,
    `the SHA-256 of the ${what} is ${digest}, not ${named}; fetch the ${what} again.`,
  );
};
const foreign = ({ status }) =>
  new Unreachable(
    `the answer ${status} is not the service's; check proxies.`,
    status,
  );
const json = (answer) => {
  const fields = parsed(answer.text);
  if (fields === null) throw foreign(answer);
  return fields;
};
const errorOf = ({ text }) => {
  const error = parsed(text)?.error;
  return typeof error === "string" ? error.slice(0, MOST_SHOWN) : null;
};
const reason = (answer) => `(${answer.status}): ${errorOf(answer) ?? "no reason."}`;
/** Seconds that a service asks for; 0 where it does not. */
const retryAfter = (answer) =>
  Number(/^\d{1,9}(?=\d*$)/.exec(answer?.headers.get("retry-after"))?.[0] ?? 0);
const checkedUrl = (url, allowHttp) => {
  const parts = /^(https?):\/\/(\[::1\]|[^/?#@:[\]\s]+)(:\d+)?(\/[^?#\s]*)?$/.exec(url);
  const safe = parts?.[1] === "https" || LOCAL.includes(parts?.[2]) || allowHttp;
  need(
    parts && safe,
    `url was ${url}; give an https address, or allowHttp within your own network.`,
  );
  return url.replace(/\/+$/, "");
};
const checkedNumber = (value, name, least) => {
  const proper = Number.isFinite(value) && value >= least;
  need(proper, `${name} was ${value}; it must be a number of at least ${least}.`);
  return value;
};
// Within a change.

const tables = (state) => {
  state.budget ??= null;
  for (const name of ["agreements", "pending", "ledger"]) state[name] ??= [];
  return state;
};
/** Reports that were made, and actions for which one was put by. */
const paid = (state) => [...state.ledger, ...state.pending];
/** What they cost, in `epsilon` or `delta`. */
const spent = (state, what) => paid(state).reduce((sum, row) => sum + row[what], 0);
/** How many of them are under an agreement of one study. */
const madeUnder = (state, mine, sha256) =>
  paid(state).filter((row) => mine(row) && row.sha256 === sha256).length;
/** Whether one more report is within the terms of its study, and within what the person allows. */
const affordable = (state, mine, { terms }, cost) =>
  madeUnder(state, mine, terms.sha256) < terms.maxContributions &&
  ["epsilon", "delta"].every(
    (what) => spent(state, what) + cost[what] <= state.budget[what] * ROUNDING,
  );
const wasMade = (state, id) => {
  const row = state.ledger.find((each) => each.id === id);
  need(row, "no choice in this storage has this id; give one that has.");
  return row.state !== "lost";
};
/** Whether a report must not leave yet. As far from its action either way as rewards count: a clock
 * that was set back must neither keep a report forever nor send one because its reward is known. */
const isHeld = ({ made, due }, time) => Math.abs(time - made) < due - made;
/** The action becomes a row of the ledger with its report; null where that was lost. */
const settle = (state, { policy, place, drawing, reward, ...row }, body) => {
  state.ledger.push({
    number: state.ledger.length + 1,
    version: place.version,
    ...row,
    sent: null,
    state: body === null ? "lost" : "waiting",
    body,
    reason: null,
  });
  state.pending = state.pending.filter((each) => each.id !== row.id);
};

/** What is sent for one report, now and whenever it is sent again. The service knows it again by
 * its public coin; by an id where that is a question, which people share. */
const bodyOf = (report, source) => {
  const id = source === null ? "" : `,"ids":[${secureNoise.words(1)[0] >> 2n}]`;
  return `{"reports":[${jsonText(jsonText(report))}]${id}}`;
};

// Of two calls with one action in this tab, one draws; between tabs the marks decide.
let drawing = Promise.resolve();

/** One person's side of one study. Its options are in index.d.ts. */
export class Device {
  #url;
  #study;
  #source;
  #path;
  #stream;
  #record;
  #key;
  #storage;
  #shuffling;
  #wanted;
  #defaultArm;
  #rewardSeconds;
  #missing;
  #hold;
  #fetch;
  #patience;
  #last = {};

  constructor(
    url,
    study,
    {
      key,
      storage,
      agreed = null,
      defaultArm = null,
      rewardSeconds = MONTH,
      missing = null,
      holdSeconds = 0,
      source = null,
      shuffling = null,
      fetch = globalThis.fetch,
      patience = {},
      allowHttp = false,
    },
  ) {
    need(/^[!-~]+$/.test(key), "key was no token; give that of `discreet keys make`.");
    this.#url = checkedUrl(url, allowHttp);
    this.#study = study;
    this.#source = source;
    const where = source === null ? [] : ["sources", source];
    // By which the storage knows it; no study has a stroke in its name.
    this.#stream = [study, ...where].join("/");
    this.#record = `policy ${this.#url} ${this.#stream}`;
    this.#path = `/v1/studies/${[study, ...where].map(encodeURIComponent).join("/")}`;
    this.#key = key;
    this.#storage = storage;
    this.#shuffling = shuffling;
    this.#wanted = agreed;
    this.#defaultArm = defaultArm;
    this.#rewardSeconds = checkedNumber(rewardSeconds, "rewardSeconds", Number.MIN_VALUE);
    checkReward(missing);
    this.#missing = missing;
    // Whole, so that `made + hold - made` is not less.
    this.#hold = Math.ceil(checkedNumber(holdSeconds, "holdSeconds", 0));
    this.#fetch = (...request) => fetch(...request);
    this.#patience = { ...PATIENCE, ...patience };
  }

  // What the person says and sees.

  /** The study's current terms, for the person to read. */
  async terms() {
    return this.#offered();
  }

  /** Record that the person agrees to the terms with this SHA-256, and to no others. */
  async agree(sha256) {
    return (await this.#agree(sha256)).terms;
  }

  /** Every report of this person, to whatever study; it needs no service. */
  async ledger() {
    return (await this.#state()).ledger;
  }

  /** What this person has paid, and may pay, over all studies. */
  async spending() {
    const state = await this.#state();
    return {
      epsilon: spent(state, "epsilon"),
      delta: spent(state, "delta"),
      mostEpsilon: state.budget?.epsilon ?? null,
      mostDelta: state.budget?.delta ?? null,
    };
  }

  /** The person's word: what all studies together may cost them. */
  async allow(epsilon, delta = 0) {
    checkedNumber(epsilon, "epsilon", Number.MIN_VALUE);
    checkedNumber(delta, "delta", 0);
    await this.#change((state) => {
      state.budget = { epsilon, delta };
    });
  }

  // What the app does.

  /** Fetch the current policy; whether it is another one. */
  async refresh() {
    return (await this.#refresh(await this.#agreement())) !== null;
  }

  /** Choose for this person, with the policy at hand. */
  async act(context) {
    this.#checkSource(false);
    let at;
    try {
      // One attempt, because a person waits.
      at = await this.#policy(1);
    } catch (error) {
      if (error instanceof Unreachable) return this.#default();
      throw error;
    }
    const choice = await this.#take(at, context, (unit, coin) => actAt(at.policy, unit, coin));
    return { ...choice, version: at.policy.version, offered: true };
  }

  /** Keep an action chosen elsewhere for this person of an auxiliary source; its id, or null. */
  async observe(context, arm) {
    this.#checkSource(true);
    const at = await this.#policy();
    const given = () => ({ arm: armNumber(at.policy, arm) });
    return (await this.#take(at, context, given)).id;
  }

  /** Report what followed from a choice; whether there is a report. */
  async report(id, reward) {
    checkReward(reward);
    if (id === null) return false;
    const known = await this.#current();
    if (!(await this.#draw(id, reward ?? NaN))) return false;
    // Under hold the time of a report must not follow from that of its reward.
    if (this.#holdUnder(known?.terms) === 0) {
      try {
        await this.#send(now(), false, 1);
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
      }
    }
    return true;
  }

  /** Send what waits and is due, after whatever waited too long for its reward was reported; the
   * rows of the ledger that the service accepted now. */
  async send({ again = false } = {}) {
    // One time for both: else what comes due in between leaves only where its reward is known.
    const time = now();
    for (const row of (await this.#state()).pending) {
      const known = "reward" in row && !isHeld(row, time);
      if (this.#mine(row) && (known || this.#late(row, time))) await this.#draw(row.id);
    }
    const accepted = await this.#send(time, again);
    const rows = await this.ledger();
    return accepted.map((number) => rows[number - 1]);
  }

  // Terms and policies.

  #mine = (row) => row.service === this.#url && row.study === this.#stream;

  async #state() {
    return tables(await this.#storage.read());
  }

  /** The least time between an action and its report. With a shuffler the time decides the group of
   * a report, so it must not follow from that of a reward. */
  #holdUnder(terms) {
    return Math.max(this.#hold, terms?.groupSize > 1 && Math.ceil(this.#rewardSeconds));
  }

  #change(fn) {
    return this.#storage.change((state) => fn(tables(state)));
  }

  #checkSource(wanted) {
    need(
      wanted === (this.#source !== null),
      "call act() for people of the study, observe() for those of a source.",
    );
  }

  /** The last agreement, or the one with these terms; undefined where there is none. */
  #agreed(state, sha256) {
    return state.agreements.findLast(
      (row) => this.#mine(row) && (!sha256 || row.sha256 === sha256),
    );
  }

  #known(state, sha256) {
    const row = this.#agreed(state, sha256);
    return row && { ...row, terms: readTerms(row.terms, this.#shuffling) };
  }

  async #current() {
    return this.#known(await this.#state());
  }

  async #agreement(attempts) {
    const known = await this.#current();
    const agreed = this.#wanted;
    if (!known && agreed !== null) return this.#agree(agreed, attempts);
    const same = known && (agreed === null || agreed === known.sha256);
    need(
      same,
      `this person agreed to ${known?.sha256 ?? "no terms"}, and agreed was ${agreed}; ` +
        "show them device.terms(), and call device.agree().",
    );
    return known;
  }

  async #offered(attempts) {
    const answer = await this.#ask("GET", `${this.#path}/terms`, { attempts });
    const terms = readTerms(json(answer), this.#shuffling);
    await checkDigest("terms", terms.text, terms.sha256);
    return terms;
  }

  async #agree(agreed, attempts) {
    const known = await this.#current();
    if (known?.sha256 === agreed) return known;
    const terms = await this.#offered(attempts);
    need(
      terms.sha256 === agreed,
      `this person agreed to ${agreed}, but the study asks for ${terms.sha256}; ` +
        "show them device.terms().",
    );
    await terms.ready?.();
    const arm = (await this.#facts(attempts)).default_arm;
    const defaultArm = ["number", "string"].includes(typeof arm) ? arm : null;
    await this.#change((state) => {
      state.agreements = state.agreements.filter(
        (row) => !(this.#mine(row) && row.sha256 === agreed),
      );
      state.agreements.push({
        service: this.#url,
        study: this.#stream,
        sha256: agreed,
        terms: terms.fields,
        defaultArm,
        agreed: now(),
        policy: null,
      });
      state.budget ??= { epsilon: terms.mostEpsilon, delta: terms.delta };
    });
    return this.#current();
  }

  /** The policy that was fetched, with its digest; null where it is the one of the agreement. */
  async #refresh(agreement, attempts) {
    const etag = agreement.policy;
    const answer = await this.#ask("GET", `${this.#path}/policy`, { etag, attempts });
    if (answer.status === 304) return null;
    const { text } = answer;
    const digest = answer.headers.get("etag")?.replace(/^W\/|"/g, "");
    await checkDigest("policy", text, digest);
    const policy = readPolicy(text, this.#source ?? "target", agreement.terms);
    if (digest === agreement.policy) return null;
    await this.#storage.change((kept) => void Object.assign(kept, { digest, text }), this.#record);
    await this.#change((state) => {
      Object.assign(this.#agreed(state, agreement.sha256) ?? {}, { policy: digest });
    });
    return (this.#last = { digest, policy });
  }

  /** What the person agreed to, and the policy at hand; it is fetched where there is none. */
  async #policy(attempts) {
    const agreement = await this.#agreement(attempts);
    const { terms, policy: named } = agreement;
    const found =
      (await this.#kept(named)) ?? (await this.#refresh({ ...agreement, policy: null }, attempts));
    need(found, "the service sent no policy; call refresh().");
    checkTerms(found.policy, terms);
    await terms.ready?.();
    return { agreement, ...found };
  }

  /** The policy with a digest, or null; the last one that was read is not read again. */
  async #kept(digest) {
    if (this.#last.digest === digest) return this.#last;
    const { digest: written, text } = await this.#storage.read(this.#record);
    if (written !== digest) return null;
    return (this.#last = { digest, policy: readPolicy(text, this.#source ?? "target") });
  }

  async #default() {
    const known = await this.#current();
    const arm = this.#defaultArm ?? known?.defaultArm ?? null;
    if (arm === null) throw new Unreachable("there is no policy; state a defaultArm.");
    const names = known?.terms.armNames ?? [];
    const place = typeof arm === "string" ? names.indexOf(arm) : arm;
    need(!names.length || place in names, `the default arm was ${arm}, none of ${names}.`);
    return {
      ...{ id: null, version: null, arm: place < 0 ? null : place },
      name: names[place] ?? (typeof arm === "string" ? arm : null),
      propensity: 1,
      offered: false,
    };
  }

  // Actions and reports.

  /** Put by what a report will cost, take an action, and keep it until its reward comes. */
  #take({ agreement, policy, digest }, context, take) {
    // Before the person is looked at.
    const coin = coinOf(policy, secureNoise);
    const cost = agreement.terms.costOf(policy.epsilon);
    return this.#change((state) => {
      // Before the context is read: whether there is a report must not depend on it.
      const id = affordable(state, this.#mine, agreement, cost) ? identifier() : null;
      const made = now();
      const unit = unitOf(policy.domain, context);
      const taken = take(unit, coin);
      if (id !== null) {
        const place = placeAt(policy, unit, taken.arm, coin);
        state.pending.push({
          ...{ id, service: this.#url, study: this.#stream, sha256: agreement.sha256 },
          ...{ policy: digest, ...cost, place },
          ...{ made, due: made + this.#holdUnder(agreement.terms), drawing: null },
        });
      }
      return { id, ...taken };
    });
  }

  /** Whether rewards of an action no longer count at a time; either way, so that a clock that was
   * far ahead keeps no context forever. */
  #late({ made, due, reportEpsilon }, time) {
    // With a shuffler the time was agreed upon with the action.
    const hold = reportEpsilon ? due - made : Infinity;
    return Math.abs(time - made) >= Math.min(hold, this.#rewardSeconds);
  }

  #draw(id, reward) {
    const drawn = drawing.then(() => this.#drawNow(id, reward));
    drawing = drawn.catch(() => {});
    return drawn;
  }

  /** Draw the report of an action, unless that was ever begun; a late reward counts as none. Under
   * hold a reward is kept, and `send`, which gives none, draws: what it does before it makes a
   * request must not tell whether the reward came. */
  async #drawNow(id, reward) {
    const mark = { id: identifier(), at: now() };
    const find = (state) => state.pending.find((each) => each.id === id && this.#mine(each));
    const begun = await this.#change((state) => {
      const row = find(state);
      if (row === undefined) return wasMade(state, id);
      if (row.drawing !== null) {
        if (Math.abs(now() - row.drawing.at) < AT_WORK) return true;
        settle(state, row, null);
        return false;
      }
      const late = reward === undefined || this.#late(row, now());
      if (!("reward" in row)) row.reward = late ? this.#missing : reward;
      if (reward !== undefined && row.due > row.made) return true;
      row.drawing = mark;
      return {
        row: { ...row },
        made: madeUnder(state, this.#mine, row.sha256),
        terms: this.#known(state, row.sha256).terms,
      };
    });
    if (typeof begun === "boolean") return begun;
    const { row, made, terms } = begun;
    need(made <= terms.maxContributions, "the terms cover no more reports.");
    const report = reportAt(row.place, terms.rewardBounds, row.reward, secureNoise);
    const body = terms.sealed
      ? await terms.sealed(report, row.policy)
      : bodyOf(report, this.#source);
    return this.#change((state) => {
      const marked = find(state);
      if (marked?.drawing?.id !== mark.id) return wasMade(state, id);
      settle(state, marked, body);
      return true;
    });
  }

  /** The numbers of the reports that were accepted, of those that are due at a time. */
  async #send(time, again, attempts) {
    const accepted = [];
    const states = again ? ["waiting", "refused"] : ["waiting"];
    // In the order of due times: that of rewards must not show under hold.
    const rows = (await this.#state()).ledger
      .filter((row) => this.#mine(row) && states.includes(row.state) && !isHeld(row, time))
      .sort((a, b) => a.due - b.due || (a.id < b.id ? -1 : 1));
    for (const row of rows) {
      const { number, body } = row;
      try {
        const answer = await this.#ask("POST", `${this.#path}/reports`, { body, attempts });
        // The service says that it stored the report now or before; something else may have answered.
        const { stored, repeated } = json(answer);
        if (answer.status !== 202 || stored + repeated !== 1) throw foreign(answer);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error.status === 409 && (await this.#facts(attempts)).state === "paused") {
          throw new Unreachable(error.message, 409);
        }
        await this.#mark(number, "refused", error.message);
        continue;
      }
      await this.#mark(number, "accepted");
      accepted.push(number);
    }
    return accepted;
  }

  #mark(number, to, why = null) {
    return this.#change((state) => {
      const row = state.ledger[number - 1];
      if (row.state === "accepted") return;
      Object.assign(row, { state: to, reason: why, sent: to === "accepted" ? now() : null });
    });
  }

  /** What the service says of the study: its state, and its default arm. */
  async #facts(attempts) {
    const path = `/v1/studies/${encodeURIComponent(this.#study)}`;
    return json(await this.#ask("GET", path, { attempts }));
  }

  /** The answer to a request, 2xx or 304, after `attempts`, or as many as patience allows. A request
   * without an answer is sent again after a random pause whose bound doubles. */
  async #ask(method, path, { body, etag = null, attempts = this.#patience.attempts }) {
    const headers = { Authorization: `Bearer ${this.#key}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (etag !== null) headers["If-None-Match"] = `"${etag}"`;
    const { first, longest, timeout } = this.#patience;
    const what = `${method} ${path}`;
    let answer = null;
    for (let attempt = 0; attempt < attempts; attempt++) {
      try {
        const response = await this.#fetch(this.#url + path, {
          ...{ method, headers, body, cache: "no-store", credentials: "omit" },
          ...{ redirect: "manual", referrerPolicy: "no-referrer" },
          signal: AbortSignal.timeout(1000 * timeout),
        });
        const { status, headers: given } = response;
        answer = { status, headers: given, text: await response.text() };
      } catch {
        answer = null;
      }
      const status = answer?.status ?? 503;
      if ((status >= 200 && status < 300) || status === 304) return answer;
      // An answer without a reason is not the service's but, say, a proxy's.
      if (status < 500 && !LATER.includes(status) && errorOf(answer)) {
        throw Object.assign(new Refused(`the service refused ${what} ${reason(answer)}`), {
          status,
        });
      }
      const asked = retryAfter(answer);
      const pause =
        publicCoin(secureNoise) *
        2 ** -53 *
        (asked > 0 ? first : Math.min(longest, first * 2 ** attempt));
      if (attempt + 1 === attempts || asked + pause > longest + first) break;
      await new Promise((resolve) => setTimeout(resolve, 1000 * (asked + pause)));
    }
    const why = answer ? `put off ${what} ${reason(answer)}` : `did not answer ${what}.`;
    throw new Unreachable(`the service ${why}`, answer?.status);
  }
}
