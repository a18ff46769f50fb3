/** A message or an argument that is refused. The text holds nothing of a person. */
export class InvalidInput extends Error {}

/** The service refused a request, which is not sent again. */
export class Refused extends InvalidInput {
  readonly status: number;
}

/** The service did not answer, or cannot work now; what was to be sent is kept. */
export class Unreachable extends Error {
  readonly status: number | null;
}

/** What a person brings: values by column, a label or a number each, or numbers in order. A missing
 * value is null, undefined, NaN or left out. */
export type Context =
  | Readonly<Record<string, string | number | boolean | bigint | null | undefined>>
  | ArrayLike<number | boolean | bigint | null | undefined>;

/** Random 64-bit words. */
export interface Noise {
  readonly name: string;
  words(count: number): BigUint64Array;
}

/** The operating system's generator (WebCrypto). */
export const secureNoise: Noise;

export interface Interval {
  readonly lower: number;
  readonly upper: number;
}

/** The public domain of contexts; lists have an entry for each column. */
export interface Domain {
  readonly lower: readonly number[];
  readonly upper: readonly number[];
  readonly names: readonly string[];
  /** How many equally spaced values it takes; null for a continuous column. */
  readonly levels: readonly (number | null)[];
  readonly categories: readonly (readonly string[])[];
  /** Whether a missing value counts as unknown. */
  readonly unknown: readonly boolean[];
  /** The numbers that have indicators of their own behind them. */
  readonly indicators: readonly (readonly number[])[];
  /** The largest length of a context; null for a box. */
  readonly radius: number | null;
}

/** What a person agrees to, known by its SHA-256. */
export interface Terms {
  readonly sha256: string;
  /** The canonical JSON (RFC 8785) of which `sha256` is to be the SHA-256. */
  readonly text: string;
  /** As the service sent them. */
  readonly fields: object;
  readonly domain: Domain;
  readonly arms: number;
  readonly armNames: readonly string[];
  /** The largest epsilon of all reports of a person together. */
  readonly mostEpsilon: number;
  readonly delta: number;
  readonly rewardBounds: Interval;
  readonly maxContributions: number;
  /** How many reports the learner sees at once, from a shuffler; 1 without one. Then `mostEpsilon`
   * and `delta` are what groups hold. */
  readonly groupSize: number;
  /** The share of the others in a group who follow the protocol. */
  readonly honest: number;
  /** With a shuffler the X25519 key, in hexadecimal, to which reports are encrypted. */
  readonly learnerKey?: string;
}

/** The module seal.js, for studies with a shuffler. */
export interface Shuffling {
  groupsOf(fields: any): object;
}

/** One published release of what was learnt; the same for everyone. */
export interface Policy {
  readonly version: number;
  /** `target`, or the name of an auxiliary source. */
  readonly stream: string;
  readonly chooses: boolean;
  readonly domain: Domain;
  readonly arms: number;
  readonly armNames: readonly string[];
  readonly rewardBounds: Interval;
  readonly maxContributions: number;
  /** Of one report by itself. */
  readonly epsilon: number;
  readonly groupSize: number;
  readonly honest: number;
}

export interface Report {
  readonly kind: "signed-reports";
  readonly schema: 1;
  readonly policy_version: number;
  readonly source: string;
  readonly noise: string;
  readonly public_coins: [number];
  readonly places: [number[]];
  readonly signs: [(1 | -1)[]];
}

/** Terms from the fields that a service sends.
 * @param shuffling for a study with a shuffler.
 * @throws InvalidInput for terms that are damaged. */
export function readTerms(fields: unknown, shuffling?: Shuffling | null): Terms;

/** A policy from the text that a service sent, for its own people or those of a source.
 * @param stream `target` if left out.
 * @param terms what this side agreed to, compared before the rest of the policy is read.
 * @throws InvalidInput for a policy of another kind or stream, or damaged. */
export function readPolicy(text: string, stream?: string, terms?: Terms | null): Policy;

/** Refuse a policy on other terms than this side agreed to.
 * @throws InvalidInput */
export function checkTerms(policy: Policy, terms: Terms): void;

/** A public coin; drawn before a person is looked at. */
export function publicCoin(noise: Noise): number;

/** Choose for a person.
 * @throws InvalidInput for a context of another shape, never for a value. */
export function act(
  policy: Policy,
  context: Context,
  publicCoin: number,
): { arm: number; propensity: number; name: string | null };

/** A person's report. A second call is a second report, and costs a second epsilon.
 * @param action what `act` chose under which coin; of a source the arm, by number or name.
 * @param reward NaN or null where it is not known. */
export function report(
  policy: Policy,
  context: Context,
  action: { arm: number; publicCoin: number } | number | string,
  reward: number | null,
  noise: Noise,
): Report;

/** Where a device keeps the records of one person: "state", and one for the policy of each study.
 * An app may bring its own. */
export interface Storage {
  /** Calls `fn`, which is synchronous, with a copy of a record ({} at first); keeps what it made
   * of it; resolves with its result once that is on the disk. Where `fn` throws, or the disk fails,
   * nothing is kept, and the promise is rejected. No two calls for one record overlap, in this tab
   * or another.
   * @param record its name; "state" if left out. */
  change<Result>(fn: (value: any) => Result, record?: string): Promise<Result>;
  /** A copy of a record. */
  read(record?: string): Promise<any>;
}

/** Records of an IndexedDB database; a change is one transaction. One person has one database,
 * whatever studies they take part in. */
export class IndexedDBStorage implements Storage {
  constructor(name: string);
  change<Result>(fn: (value: any) => Result, record?: string): Promise<Result>;
  read(record?: string): Promise<any>;
}

/** For tests: what a person paid is forgotten with the page. */
export class MemoryStorage implements Storage {
  change<Result>(fn: (value: any) => Result, record?: string): Promise<Result>;
  read(record?: string): Promise<any>;
}

/** How often, and how many seconds, a request is tried. */
export interface Patience {
  /** In all; 6. */
  attempts?: number;
  /** Bound of the first pause, which doubles with each; 0.5. */
  first?: number;
  /** Bound of every pause; 60. */
  longest?: number;
  /** What one answer may take; 10. */
  timeout?: number;
}

export interface Options {
  /** A token for devices of this study. */
  key: string;
  storage: Storage;
  /** The SHA-256 of the terms that the person agreed to, where the app knows it. */
  agreed?: string | null;
  /** What is given while there is no policy; null for what the study says. */
  defaultArm?: string | number | null;
  /** The seconds after an action within which its reward counts; 30 days. */
  rewardSeconds?: number;
  /** The reward that counts where none came in time; null for the middle of the bounds. */
  missing?: number | null;
  /** The least seconds between an action and its report, rounded up. Above 0 reports are drawn and
   * leave in `send` alone. */
  holdSeconds?: number;
  /** Of which auxiliary source the person is. */
  source?: string | null;
  /** For a study with a shuffler, whose address `url` is: the module, `import * as shuffling from
   * "./seal.js"`. A report then leaves `rewardSeconds` after its action at the earliest. */
  shuffling?: Shuffling | null;
  fetch?: typeof globalThis.fetch;
  patience?: Patience;
  /** Whether the key may travel unencrypted to another machine. */
  allowHttp?: boolean;
}

export interface Choice {
  /** For the reward; null where nothing is reported. */
  readonly id: string | null;
  /** Of the policy that chose; null for the default arm. */
  readonly version: number | null;
  readonly arm: number | null;
  readonly name: string | null;
  readonly propensity: number;
  /** Whether a policy chose, and not the default. */
  readonly offered: boolean;
}

/** One report of a person. */
export interface LedgerRow {
  /** From 1, in the order in which reports were made. */
  readonly number: number;
  readonly id: string;
  readonly service: string;
  readonly study: string;
  /** Of the terms. */
  readonly sha256: string;
  /** Of the policy. */
  readonly version: number;
  /** What it cost; with a shuffler as one of its group, at `delta`. */
  readonly epsilon: number;
  readonly delta: number;
  /** With a shuffler, what it cost by itself, if the shuffler conspires with the learner. */
  readonly reportEpsilon: number | null;
  /** When the person acted, in seconds since 1970, by the clock of the device. */
  readonly made: number;
  readonly due: number;
  readonly sent: number | null;
  /** `lost` where the device was stopped as it was drawn: nothing left, and it counts. */
  readonly state: "waiting" | "accepted" | "refused" | "lost";
  /** What left, or will, as it is sent. */
  readonly body: string | null;
  readonly reason: string | null;
}

/** One person's side of one study.
 *
 * Every method may reject with `Unreachable` or `Refused` where it makes a request. */
export class Device {
  /** @throws InvalidInput for options that cannot be meant. */
  constructor(url: string, study: string, options: Options);
  /** The study's current terms, for the person to read. */
  terms(): Promise<Terms>;
  /** Record that the person agrees to the terms with this SHA-256, and to no others. */
  agree(sha256: string): Promise<Terms>;
  /** Fetch the current policy; whether it is another one. A policy on other terms is not kept. */
  refresh(): Promise<boolean>;
  /** Choose for this person, with the policy at hand. The id is null where a report would be
   * beyond what the person agreed to or allows, and for the default arm. */
  act(context: Context): Promise<Choice>;
  /** Keep an action chosen elsewhere for this person of an auxiliary source; its id. */
  observe(context: Context, arm: number | string): Promise<string | null>;
  /** Report what followed; whether there is a report, or will be: the same again for the same
   * choice.
   * @param reward NaN or null where it is not known. */
  report(id: string | null, reward: number | null): Promise<boolean>;
  /** Send what waits and is due; the reports that the service accepted now.
   * @param options.again also what the service refused before. */
  send(options?: { again?: boolean }): Promise<LedgerRow[]>;
  /** Every report of this person, to whatever study. */
  ledger(): Promise<LedgerRow[]>;
  /** What this person has paid, and may pay, over all studies. */
  spending(): Promise<{
    epsilon: number;
    delta: number;
    mostEpsilon: number | null;
    mostDelta: number | null;
  }>;
  /** The person's word: what all studies together may cost them. */
  allow(epsilon: number, delta?: number): Promise<void>;
}
