// What a device does with a policy: read it, choose, report. Pure and synchronous; the same
// decisions, and for the same random words the same reports, as the Python package.
//
// A message is refused before a context, an arm or a reward is looked at. After that nothing is
// refused for what a value is, because silence is not private.
//
// Numbers are IEEE doubles with +, -, *, / and square roots alone, which are the same everywhere.
// Features lie on a grid, and coefficients are whole numbers, such that every sum of their products
// is exact: arms and signs do not depend on the order of sums. Probabilities that privacy rests on
// are whole numbers of 2^-64, in exact arithmetic.

/** A message or an argument that is refused. The text holds nothing of a person. */
export class InvalidInput extends Error {
  name = "InvalidInput";
}

export const need = (holds, message) => {
  if (!holds) throw new InvalidInput(message);
};
/** A part of a message is as it must be; what it was is not repeated. */
export const sound = (holds, part) =>
  need(holds, `${part} is damaged or unsupported; fetch it again.`);

// Reading. Each check returns what it read.

/** The value of a JSON text; null where it is none. */
export const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};
export const number = (value, part, low = -Number.MAX_VALUE, high = Number.MAX_VALUE) => {
  sound(typeof value === "number" && value >= low && value <= high, part);
  return value;
};
export const whole = (value, part, low = 0, high = Number.MAX_SAFE_INTEGER) => {
  sound(Number.isInteger(value), part);
  // A place -0 of a policy would be told from the 0 of another person's report.
  return number(value, part, low, high) + 0;
};
const characters = (value, part, least = 0, most = Infinity) => {
  sound(typeof value === "string", part);
  number([...value].length, part, least, most);
  return value;
};
const items = (value, part, read) => {
  sound(Array.isArray(value), part);
  return value.map((each) => read(each, part));
};
const fieldsOf = (value, part, wanted, optional = []) => {
  sound(value !== null && typeof value === "object", part);
  const known = [...wanted, ...optional];
  const complete = wanted.every((key) => key in value);
  sound(complete && Object.keys(value).every((key) => known.includes(key)), part);
  return value;
};
const distinct = (values) => new Set(values).size === values.length;
const largest = (values) => values.reduce((most, each) => Math.max(most, each), 0);

/** The numbers of nested lists, or of base64 text, in C order; null in `shape` is any size, and is
 * set to the size that was given. */
const array = (value, part, shape, low, high, read = number) => {
  if (read === number && !Array.isArray(value)) {
    const { shape: sizes, float64: text } = fieldsOf(value, part, ["shape", "float64"]);
    const proper = typeof text === "string" && text.length % 4 === 0;
    sound(proper && /^[A-Za-z0-9+/]*={0,2}$/.test(text), part);
    const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    let count = 1;
    items(sizes, part, whole).forEach((size, axis) => {
      sound((shape[axis] ?? size) === size, part);
      shape[axis] = size;
      count *= size;
    });
    sound(sizes.length === shape.length && bytes.length === 8 * count, part);
    const view = new DataView(bytes.buffer);
    return Array.from({ length: count }, (_, place) =>
      number(view.getFloat64(8 * place, true), part, low, high),
    );
  }
  const numbers = [];
  const walk = (each, axis) => {
    if (axis === shape.length) {
      numbers.push(read(each, part, low, high));
      return;
    }
    sound(Array.isArray(each) && (shape[axis] ?? each.length) === each.length, part);
    shape[axis] = each.length;
    for (const inner of each) walk(inner, axis + 1);
  };
  walk(value, 0);
  return numbers;
};
const truth = (value, part) => {
  sound(typeof value === "boolean", part);
  return value;
};
/** The rows of numbers in C order. */
const rowsOf = (numbers, width) =>
  Array.from({ length: numbers.length / width }, (_, row) =>
    numbers.slice(row * width, (row + 1) * width),
  );

// The domain of contexts.

const UNKNOWN = "unknown";
// The white space that Python strips.
const SPACE = /(?!\ufeff)[\s\x1c-\x1f\x85]/;

/** A text without the space around it; no expression for both ends takes linear time. */
const stripped = (text) => {
  let [start, end] = [0, text.length];
  while (SPACE.test(text[start])) start++;
  while (end > start && SPACE.test(text[end - 1])) end--;
  return text.slice(start, end);
};
/** A label as text: 1 and 1.0 are "1", true is "true". */
const labelText = (value) => {
  if (typeof value !== "number") return stripped(String(value));
  if (Number.isInteger(value)) return BigInt(value).toString();
  // Python writes small numbers as 1e-05.
  return Math.abs(value) < 1e-4 ? value.toExponential().replace(/-(.)$/, "-0$1") : String(value);
};
/** One text for what programs write differently: `1.0` and `1`, `TRUE` and `true`. */
const sameLabel = (label) => {
  const number = /^([+-]?\p{Nd}+)\.0*$/u.exec(label);
  if (number) return number[1];
  const lower = label.toLowerCase();
  return lower === "true" || lower === "false" ? lower : label;
};
/** The case folding of Unicode, by code points. */
const folded = (label) =>
  Array.from(label, (each) =>
    each === "\u0131" ? each : each.toLowerCase().toUpperCase().toLowerCase(),
  ).join("");

/** The place of a text among labels: as declared, else written differently, else the only one that
 * differs in capitals alone; NaN for none. */
const labelPlaces = (labels) => {
  const exact = new Map(labels.map((label, place) => [label, place]));
  const same = new Map(labels.map((label, place) => [sameLabel(label), place]).reverse());
  const folds = labels.map(folded);
  const only = new Map(
    folds.map((fold, place) => [
      fold,
      folds.indexOf(fold) === folds.lastIndexOf(fold) ? place : NaN,
    ]),
  );
  return (text) => {
    // All three, so that the work does not depend on which of them finds it.
    const found = [exact.get(text), same.get(sameLabel(text)), only.get(folded(text))];
    return found[0] ?? found[1] ?? found[2] ?? NaN;
  };
};

const readDomain = (given) => {
  if (given?.kind === "ball") {
    const { names, radius } = fieldsOf(given, "domain", ["kind", "names", "radius"]);
    number(radius, "radius", 1e-100, 1e100);
    const [lower, upper] = [-radius, radius].map((end) => items(names, "names", () => end));
    return { ...readDomain({ lower, upper, names, levels: [], categories: [] }), radius };
  }
  const wanted = ["lower", "upper", "names", "levels", "categories"];
  fieldsOf(given, "domain", wanted, ["unknown", "indicators"]);
  const lower = items(given.lower, "lower", number);
  const each = (part, read, other) => {
    const values = items(given[part] ?? [], part, read);
    const filled = values.length ? values : lower.map((_, place) => other?.(place));
    sound(filled.length === lower.length, part);
    return filled;
  };
  const upper = each("upper", number);
  const names = each("names", characters, (place) => `x${place + 1}`);
  const level = (count, part) => (count === null ? null : whole(count, part, 2));
  const levels = each("levels", level, () => null);
  const none = () => [];
  const lists = (name, read) => each(name, (list, part) => items(list, part, read), none);
  const categories = lists("categories", characters);
  const unknown = each("unknown", truth, () => false);
  const indicators = lists("indicators", number);
  sound(names.length > 0 && distinct(names), "names");
  const labels = categories.map((texts) => texts.map(labelText));
  names.forEach((name, place) => {
    const texts = categories[place];
    const range = upper[place] - lower[place];
    const labelling = !texts.length || (texts.length === levels[place] && distinct(labels[place]));
    // Behind a column of numbers stand its indicators.
    const behind = indicators[place].map((value) => {
      number(value, "indicators", lower[place], upper[place]);
      return `${name} = ${labelText(value)}`;
    });
    if (unknown[place] && !texts.length) behind.unshift(`${name} ${UNKNOWN}`);
    const indicated = texts.length
      ? !behind.length && (!unknown[place] || texts.includes(UNKNOWN))
      : behind.every((each, at) => each === names[place + 1 + at]);
    sound(range > 0 && range < Infinity && labelling && indicated, `column ${name}`);
  });
  const declared = { lower, upper, names, levels, categories, unknown, indicators, radius: null };
  return Object.defineProperty(declared, "places", { value: labels.map(labelPlaces) });
};

const clip = (value, low, high) => Math.min(Math.max(value, low), high);

const isMissing = (value) => value === null || value === undefined || Number.isNaN(value);

const isNumber = (value) => ["number", "boolean", "bigint"].includes(typeof value);

/** A context in declared units; NaN for what is missing, or no value of its column. */
const inOrder = (domain, context) => {
  const { lower, upper, names, levels, categories, unknown, indicators, places } = domain;
  need(
    context !== null && typeof context === "object" && !(context instanceof Map),
    "a context was no object; give values by column, or numbers in order.",
  );
  let row;
  if (Array.isArray(context) || ArrayBuffer.isView(context)) {
    row = Array.from(context, (value) => {
      need(isMissing(value) || isNumber(value), "a list holds numbers; give labels by column.");
      return isMissing(value) ? NaN : Number(value);
    });
    need(row.length === names.length, `the context had ${row.length} values for ${names}.`);
  } else {
    const more = Object.keys(context).filter((name) => !names.includes(name));
    need(!more.length, `the context had the columns ${more}; the domain has ${names}.`);
    row = names.map((name, place) => {
      const value = Object.hasOwn(context, name) ? context[name] : null;
      const labels = categories[place];
      if (!labels.length) return isNumber(value) ? Number(value) : NaN;
      const step = (upper[place] - lower[place]) / (labels.length - 1);
      const proper = !isMissing(value) && (typeof value === "string" || isNumber(value));
      return lower[place] + (proper ? places[place](labelText(value)) : NaN) * step;
    });
  }
  row.forEach((given, place) => {
    const [low, high, count] = [lower[place], upper[place], levels[place]];
    const absent = Number.isNaN(given);
    let behind = place + 1;
    const show = (yes) => {
      const implied = yes ? upper[behind] : lower[behind];
      row[behind] = absent || Number.isNaN(row[behind]) ? implied : row[behind];
      behind++;
    };
    if (unknown[place]) {
      const label = categories[place].indexOf(UNKNOWN);
      const level = label < 0 ? Math.floor((count - 1) / 2) : label;
      const share = count === null ? 0.5 : level / (count - 1);
      row[place] = absent ? low + share * (high - low) : given;
      if (label < 0) show(absent);
    }
    const reach = (count === null ? 1e-9 : 0.49 / (count - 1)) * (high - low);
    for (const value of indicators[place]) show(Math.abs(clip(given, low, high) - value) <= reach);
  });
  return row;
};

/** To the nearest whole number, halves to the even one, as np.rint. */
const rint = (value) => {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 !== 0) ? below + 1 : below;
};

/** A context in [0, 1]^d. A value outside its bounds counts as the nearest one within, one between
 * two levels as the nearest level, and a missing one as the middle; shapes and types are refused. */
export const unitOf = (domain, context) => {
  const { lower, upper, levels, radius } = domain;
  const middle = (place) => lower[place] + (upper[place] - lower[place]) / 2;
  const inside = inOrder(domain, context).map((value, place) =>
    clip(Number.isNaN(value) ? middle(place) : value, lower[place], upper[place]),
  );
  const length = Math.sqrt(inside.reduce((sum, value) => sum + value * value, 0));
  const longer = radius === null ? 1 : Math.max(length / radius, 1);
  return inside.map((value, place) => {
    const unit = (value / longer - lower[place]) / (upper[place] - lower[place]);
    const count = levels[place];
    return count === null ? unit : rint(unit * (count - 1)) / (count - 1);
  });
};

// Terms.

const readBounds = (given) => {
  const { lower, upper } = fieldsOf(given, "reward_bounds", ["lower", "upper"]);
  for (const end of [lower, upper, upper - lower]) number(end, "reward_bounds");
  sound(lower < upper, "reward_bounds");
  return { lower, upper };
};
const readArmNames = (given, arms) => {
  const names = items(given, "arm_names", (name, part) => characters(name, part, 1, 100));
  sound(!names.length || (names.length === arms && distinct(names)), "arm_names");
  return names;
};
/** Without a shuffler: what a report costs, a pure one nothing of a delta. */
const ALONE = {
  groupSize: 1,
  honest: 1,
  costOf: (epsilon) => ({ epsilon, delta: 0, reportEpsilon: null }),
};

/** JSON values as the one text of RFC 8785, of which the SHA-256 of terms is taken. */
export const canonicalJson = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`).join()}}`;
};

/** Terms from the fields that a service sends; the caller compares `sha256` with the SHA-256 of
 * `text`.
 *
 * @param shuffling the module seal.js, for a study with a shuffler. */
export const readTerms = (fields, shuffling = null) => {
  const wanted = ["domain", "space", "arm_names", "most_epsilon", "reward_bounds", "delta"];
  const shuffled = fields?.group_size !== undefined;
  need(
    !shuffled || shuffling,
    "the study has a shuffler; import seal.js as shuffling.",
  );
  if (shuffled) wanted.push("group_size", "honest", "learner_key");
  fieldsOf(fields, "terms", [...wanted, "max_contributions", "sha256"]);
  const { sha256, ...rest } = fields;
  const { space } = rest;
  // Arms that are public points; all other spaces are objects of points to be chosen.
  const points = space?.kind === "ArmPoints" ? items(space.points, "space", (each) => each) : null;
  const arms = whole(points ? points.length : space, "space, of which this client takes arms,", 2);
  const armNames = readArmNames(fields.arm_names, arms);
  sound(!points || canonicalJson(space.names ?? []) === canonicalJson(armNames), "arm_names");
  return {
    sha256: characters(sha256, "sha256", 64, 64),
    text: canonicalJson(rest),
    fields,
    domain: readDomain(fields.domain),
    arms,
    armNames,
    mostEpsilon: number(fields.most_epsilon, "most_epsilon", Number.MIN_VALUE),
    rewardBounds: readBounds(fields.reward_bounds),
    delta: number(fields.delta, "delta", 0, 1 - 2 ** -53),
    maxContributions: whole(fields.max_contributions, "max_contributions", 1),
    ...(shuffled ? shuffling.groupsOf(fields) : ALONE),
  };
};

/** Refuse a policy on other terms than this side agreed to. */
export const checkTerms = (policy, terms) => {
  const refuse = (holds, name, offered, agreed) =>
    need(
      holds,
      `policy ${policy.version} has ${name} ${offered}, but the terms ${agreed}; do not use it.`,
    );
  const names = ["domain", "arms", "armNames", "rewardBounds", "maxContributions"];
  for (const name of [...names, "groupSize", "honest"]) {
    const [offered, agreed] = [policy, terms].map((side) => canonicalJson(side[name]));
    refuse(offered === agreed, name, offered, agreed);
  }
  // Pure reports compose by adding, at any delta. At a delta above 0 the optimal composition of
  // several is less, which is not computed here: such terms are refused rather than misread.
  const held = terms.costOf(policy.epsilon).epsilon * terms.maxContributions;
  refuse(held <= terms.mostEpsilon, "epsilon", held, `at most ${terms.mostEpsilon}`);
};

// Randomness.

const WORDS = 2n ** 64n;
const COINS = 2 ** 53;
export const STEP = 0x9e3779b97f4a7c15n;
export const word64 = (value) => BigInt.asUintN(64, value);

/** The output function of SplitMix64. */
export const mix = (word) => {
  let mixed = word64((word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = word64((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return mixed ^ (mixed >> 31n);
};
/** A uniform number in [0, 1) of a policy, a public coin and a place. */
const publicUniform = ({ seed, version }, coin, place) => {
  const key = mix(word64(BigInt(seed) * STEP + BigInt(version) + STEP));
  const word = mix(word64(mix(word64(BigInt(coin) + key)) + BigInt(place) * STEP));
  return Number(word >> 11n) * 2 ** -53;
};
/** A whole number from 0 to bound - 1, by rejection. */
const below = (noise, bound) => {
  const size = BigInt(bound);
  const last = WORDS - 1n - (WORDS % size);
  let [word] = noise.words(1);
  while (word > last) [word] = noise.words(1);
  return Number(word % size);
};

/** A public coin; it needs no secrecy, and is drawn before a person is looked at. */
export const publicCoin = (noise) => Number(noise.words(1)[0] >> 11n);

const BITS = 256n;
/** A little less than e^epsilon times 2^256, for epsilon up to 128; every step rounds down. */
const exponential = (epsilon) => {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, Math.min(epsilon, 128));
  const bits = view.getBigUint64(0);
  // Numbers below 2^-256 count as 0, those that are not normal among them.
  const mantissa = (bits & (2n ** 52n - 1n)) | (2n ** 52n);
  const shift = BITS + (bits >> 52n) - 1075n;
  const exact = shift >= 0n ? mantissa << shift : mantissa >> -shift;
  const part = exact >> 8n; // at most 1/2
  let sum = 1n << BITS;
  for (let term = sum, k = 1n; term > 0n; k++) {
    term = (term * part) / (k << BITS);
    sum += term;
  }
  for (let k = 0; k < 8; k++) sum = (sum * sum) >> BITS;
  return sum;
};
/** 2^64 h for signed subset selection of m of J places: h is the least coin for which no two
 * reports differ by more than e^epsilon, R = (1 - h) (1 - s) / (h s) with s = m / 2J. */
const hiddenThreshold = (places, size, epsilon) => {
  const [share, rest] = [BigInt(size), BigInt(2 * places - size)];
  const [above, under] = [(WORDS * rest) << BITS, (rest << BITS) + share * exponential(epsilon)];
  const hidden = (above + under - 1n) / under;
  // Else reports of coins of 64 bits would say nothing.
  sound(hidden * BigInt(2 * places) < WORDS * rest, "epsilon");
  return hidden;
};

// Kernel policies: functions, ranks and cells.

const LEAST_EPSILON = 1e-6;
const MOST_EPSILON = 1e4;
const MOST_FREQUENCY = 63;
// On these bounds sums of products are exact: 14 + 16 + 20 bits and 7.5 are below 53 bits. A feature
// of f columns is at most the root of 2^f.
const MOST_OF_FEATURES = 2 ** 14;
const LARGEST_COEFFICIENT = 7.5 * 2 ** 20;
const FEATURE_GRID = 2 ** -16;
// (-1)^k pi^(2k) / (2k)!
const COS_PI = [
  1.0, -4.934802200544679, 4.0587121264167685, -1.3352627688545895, 0.2353306303588932,
  -0.02580689139001406, 0.0019295743094039231, -0.0001046381049248457, 4.303069587032947e-6,
  -1.3878952462213771e-7, 3.604730797462501e-9, -7.700707130601354e-11,
];

/** cos(pi x) for x in [0, 1]. */
const cosPi = (x) => {
  const nearest = Math.min(x, 1 - x);
  const square = nearest * nearest;
  let value = COS_PI[COS_PI.length - 1];
  for (let k = COS_PI.length - 2; k >= 0; k--) value = value * square + COS_PI[k];
  return x <= 0.5 ? value : -value;
};

const coefficients = (given, part, shape) => {
  const most = LARGEST_COEFFICIENT;
  const numbers = Float64Array.from(array(given, part, shape, -most, most, whole));
  sound(shape[0] > 0, part);
  return numbers;
};

/** ceil(log2(count)) */
const depthOf = (count) => 32 - Math.clz32(count - 1);

const readCells = (given, columns) => {
  fieldsOf(given, "cells", ["count", "axis", "cut", "child"]);
  const count = whole(given.count, "cells.count", 1, 256);
  const nodes = 2 * count - 1;
  const shape = [null, nodes];
  const axis = array(given.axis, "cells.axis", shape, -1, columns - 1, whole);
  const cut = array(given.cut, "cells.cut", shape);
  const child = array(given.child, "cells.child", shape, 0, nodes, whole);
  sound(shape[0] > 0, "cells.axis");
  const depth = axis.map(() => 0);
  axis.forEach((along, place) => {
    const first = child[place];
    const node = place % nodes;
    if (along < 0) {
      sound(first < count, "cells.child");
      return;
    }
    sound(first > node && first < nodes - 1, "cells.child");
    for (const below of [place - node + first, place - node + first + 1]) {
      depth[below] = Math.max(depth[below], depth[place] + 1);
      sound(depth[below] <= depthOf(count), "cells.child");
    }
  });
  return { count, partitions: shape[0], nodes, axis, cut, child };
};

const readKernel = (given, header) => {
  const { arms, domain, chooses } = header;
  const size = domain.names.length;
  const { varies = true, clipping_range: range = [0, 1], thresholds = [] } = given;
  truth(varies, "varies");
  const rows = [null, size];
  const flat = array(given.frequencies, "frequencies", rows, 0, MOST_FREQUENCY, whole);
  const frequencies = rowsOf(flat, size);
  const most = largest(flat);
  const sizes = frequencies.map((row) => Math.SQRT2 ** row.filter(Boolean).length);
  const sum = sizes.reduce((total, each) => total + each, 0);
  number(sum, "frequencies", 1, MOST_OF_FEATURES);
  sound((varies || most === 0) && distinct(frequencies.map(String)), "frequencies");
  const {
    knots: stated,
    stage,
    asked,
  } = fieldsOf(given.ranks, "ranks", ["knots", "stage", "asked"]);
  whole(stage, "stage", 0, 12);
  array(asked, "asked", [null], 0, size - 1, whole);
  const grid = [size, null];
  const numbers = array(stated, "knots", grid, 0, 1);
  const last = grid[1] - 1;
  sound(last > 0, "knots");
  const knots = rowsOf(numbers, last + 1);
  for (const row of knots) {
    const rising = row.every((knot, place) => place === 0 || knot > row[place - 1]);
    sound(rising && row[0] === 0 && row[last] === 1, "knots");
  }
  const shape = [null, arms, frequencies.length];
  sound(chooses === (given.values !== null), "values");
  const values = chooses ? coefficients(given.values, "values", shape) : null;
  const directions = coefficients(given.directions, "directions", shape);
  const cells = readCells(given.cells, size + Number(!chooses));
  array(given.density, "density", [null], Number.MIN_VALUE);
  const { partitions } = cells;
  const share = (value, part) => number(value, part, 0, 1);
  const ends = items(range, "clipping_range", share);
  sound(ends.length === 2 && ends[1] - ends[0] >= 2 ** -20, "clipping_range");
  // A threshold is a range of no width.
  let ranges = items(thresholds, "thresholds", share).map((at) => [at, at]);
  if (!ranges.length) ranges = new Array(partitions).fill(range);
  else sound(ranges.length === partitions && cells.count === 1, "thresholds");
  const none = new Array(arms).fill(frequencies.map(() => 0));
  const centres = coefficients(given.centres ?? none, "centres", shape.slice(1));
  const mechanism = { places: cells.count, size: 1 };
  const read = { ranges, centres, frequencies, most, knots, values, directions, cells, mechanism };
  return { functions: shape[0], ...read };
};

/** The share of people below each value, as policies measure it. All knots are compared. */
const ranksOf = (policy, unit) =>
  unit.map((value, axis) => {
    const knots = policy.knots[axis];
    const last = knots.length - 1;
    let count = 0;
    for (const knot of knots) count += Number(knot <= value);
    const place = Math.min(count - 1, last - 1);
    return (place + (value - knots[place]) / (knots[place + 1] - knots[place])) / last;
  });
/** Ranks as features and cells look them up: a level is at the centre of its part. */
const placedOf = (policy, ranks) =>
  ranks.map((rank, axis) => {
    const count = policy.domain.levels[axis];
    return count === null ? rank : (rint(rank * (count - 1)) + 0.5) / count;
  });
const featuresOf = (policy, placed) => {
  const cosines = placed.map((x) => {
    const row = new Float64Array(policy.most + 1).fill(1);
    if (policy.most === 0) return row;
    row[1] = cosPi(x);
    const twice = 2 * row[1];
    for (let i = 2; i < row.length; i++) row[i] = twice * row[i - 1] - row[i - 2];
    for (let i = 1; i < row.length; i++) row[i] *= Math.SQRT2;
    return row;
  });
  return Float64Array.from(policy.frequencies, (row) => {
    let product = 1;
    for (let axis = 0; axis < row.length; axis++) {
      if (row[axis] > 0) product *= cosines[axis][row[axis]];
    }
    return rint(product / FEATURE_GRID) * FEATURE_GRID;
  });
};
const dot = (table, start, phi) => {
  let sum = 0;
  for (let place = 0; place < phi.length; place++) sum += table[start + place] * phi[place];
  return sum;
};
/** The cell of a point in a partition; every point takes as many steps. */
const locate = (cells, partition, placed) => {
  const start = partition * cells.nodes;
  let node = start;
  for (let step = depthOf(cells.count); step > 0; step--) {
    const axis = cells.axis[node];
    const right = Number(placed[Math.max(axis, 0)] >= cells.cut[node]);
    node = axis >= 0 ? start + cells.child[node] + right : node;
  }
  return cells.child[node];
};

const pick = (policy, coin, place, count) => Math.floor(publicUniform(policy, coin, place) * count);

const kernel = {
  read: readKernel,
  act(policy, unit, coin) {
    const phi = featuresOf(policy, placedOf(policy, ranksOf(policy, unit)));
    const size = phi.length;
    const arms = Array.from({ length: policy.functions }, (_, row) => {
      let [best, most] = [0, -Infinity];
      for (let arm = 0; arm < policy.arms; arm++) {
        const value = dot(policy.values, (row * policy.arms + arm) * size, phi);
        if (value > most) [best, most] = [arm, value];
      }
      return best;
    });
    const arm = arms[pick(policy, coin, 0, policy.functions)];
    const same = arms.reduce((count, each) => count + Number(each === arm), 0);
    return [arm, same / policy.functions];
  },
  /** The cell, the signs there of a reward that is up and of one that is down, and the range to
   * which rewards are clipped; its ends are one where it is a threshold that is asked about. */
  place(policy, unit, arm, coin) {
    const { partitions } = policy.cells;
    const function_ = policy.chooses
      ? pick(policy, coin, 0, policy.functions)
      : Math.floor(coin / partitions);
    const partition = policy.chooses ? pick(policy, coin, 1, partitions) : coin % partitions;
    const placed = placedOf(policy, ranksOf(policy, unit));
    const phi = featuresOf(policy, placed);
    const start = (function_ * policy.arms + arm) * phi.length;
    const up = dot(policy.directions, start, phi) >= 0;
    if (!policy.chooses) placed.push((arm + 0.5) / policy.arms);
    const cell = locate(policy.cells, partition, placed);
    const moved = clip(dot(policy.centres, arm * phi.length, phi) * 2 ** -21, -0.5, 0.5);
    const range = policy.ranges[partition].map((end) => end + moved);
    return [cell, up ? [1, -1] : [-1, 1], range];
  },
};

// Partition policies: a tree of boxes, and the arms left in each.

const MOST_DEPTH = 32;
const MOST_SPLITS = 50_000;

const readPartition = (given, { arms, domain, chooses }) => {
  sound(chooses, "stream");
  const { tree, active: stated } = fieldsOf(given.bins, "bins", ["tree", "active"]);
  fieldsOf(tree, "tree", ["dimension", "nodes", "axes"]);
  const size = domain.names.length;
  whole(tree.dimension, "dimension", size, size);
  const splits = [null];
  const nodes = array(tree.nodes, "nodes", splits, 0, 2 * MOST_SPLITS, whole);
  const axes = array(tree.axes, "axes", splits, 0, size - 1, whole);
  sound(nodes.length <= MOST_SPLITS && distinct(nodes), "nodes");
  const boxes = [{ box: domain.names.map(() => [0, 1]), depth: 0 }];
  const count = 2 * nodes.length + 1;
  const axis = new Array(count).fill(0);
  const threshold = new Array(count).fill(Infinity);
  const left = Array.from(axis, (_, node) => node); // a leaf leads to itself
  nodes.forEach((node, place) => {
    sound(node < 2 * place + 1, "nodes");
    const { box, depth } = boxes[node];
    const [low, high] = box[axes[place]];
    const middle = 0.5 * (low + high);
    axis[node] = axes[place];
    threshold[node] = middle;
    left[node] = boxes.length;
    for (const end of [
      [low, middle],
      [middle, high],
    ]) {
      boxes.push({ box: box.with(axes[place], end), depth: depth + 1 });
    }
  });
  const deepest = whole(largest(boxes.map((each) => each.depth)), "nodes", 0, MOST_DEPTH);
  const position = [];
  const leaves = left.flatMap((below, node) => (below === node ? [node] : []));
  leaves.forEach((node, place) => (position[node] = place));
  const shape = [leaves.length, arms];
  const offers = array(given.offers, "offers", shape, 0);
  const active = rowsOf(array(stated, "active", shape, 0, 0, truth), arms);
  const thresholds = [];
  const places = [];
  let asked = 0;
  rowsOf(offers, arms).forEach((own, leaf) => {
    const sum = own.reduce((total, each) => total + each, 0);
    const among = own.every((each, arm) => active[leaf][arm] || each === 0);
    sound(Math.abs(sum - 1) <= 1e-9 && among, "offers");
    // From the last arm that is offered on the sum is 1, whatever was lost in rounding.
    const last = own.findLastIndex((each) => each > 0);
    let total = 0;
    own.forEach((each, arm) => thresholds.push(arm < last ? (total += each) : 1));
    places.push(active[leaf].filter(Boolean).length > 1 ? asked++ : -1);
  });
  const among = asked + Number(asked < leaves.length);
  return {
    descent: { axis, threshold, left, deepest },
    ...{ leaves, position, offers, thresholds, asked },
    places: places.map((place) => (place < 0 ? asked : place)),
    mechanism: { places: among, size: whole(given.size, "size", 1, among) },
  };
};

/** The leaf of a context; everyone takes as many steps as the deepest leaf needs. */
const leafOf = (policy, unit) => {
  const { axis, threshold, left, deepest } = policy.descent;
  let node = 0;
  for (let step = 0; step < deepest; step++) {
    node = left[node] + Number(unit[axis[node]] >= threshold[node]);
  }
  return policy.position[node];
};

const partition = {
  read: readPartition,
  act(policy, unit, coin) {
    const leaf = leafOf(policy, unit);
    const uniform = publicUniform(policy, coin, policy.leaves[leaf]);
    const start = leaf * policy.arms;
    let arm = 0;
    for (let each = 0; each < policy.arms - 1; each++) {
      arm += Number(uniform >= policy.thresholds[start + each]);
    }
    return [arm, policy.offers[start + arm]];
  },
  place(policy, unit) {
    const own = policy.places[leafOf(policy, unit)];
    return [own, own === policy.asked ? [1, 1] : [1, -1], [0, 1]];
  },
};

// Policies.

const KINDS = {
  "local-kernel-policy": [
    kernel,
    ["frequencies", "ranks", "values", "directions", "cells", "density"],
    ["varies", "clipping_range", "thresholds", "centres"],
  ],
  "partition-policy": [partition, ["bins", "offers", "size"], []],
};
const HEADER = [
  ...["kind", "version", "learner_id", "domain", "reward_bounds", "public_seed"],
  ...["max_contributions", "arms", "epsilon"],
];
const OPTIONAL = ["arm_names", "stream", "group_size", "honest", "schema"];

/** A policy from the text that a service sent, for its own people or those of a source.
 *
 * @throws {InvalidInput} for a policy of another kind or stream, or damaged. */
export const readPolicy = (text, stream = "target", terms = null) => {
  const given = parsed(text);
  const kind = given?.kind;
  sound(typeof kind === "string" && Object.hasOwn(KINDS, kind), "the policy's kind");
  const [learner, own, optional] = KINDS[kind];
  fieldsOf(given, "the policy", [...HEADER, ...own], [...OPTIONAL, ...optional]);
  whole(given.schema ?? 1, "schema", 1, 1);
  sound((given.stream ?? "target") === stream, "stream");
  const learnerId = characters(given.learner_id, "learner_id", 1, 100);
  const arms = whole(given.arms, "arms", 2);
  const chooses = stream === "target";
  const range = chooses ? [Number.MIN_VALUE] : [LEAST_EPSILON, MOST_EPSILON];
  const header = {
    learner,
    version: whole(given.version, "version"),
    stream,
    chooses,
    source: chooses ? learnerId : `${learnerId}, source ${stream}`,
    domain: readDomain(given.domain),
    rewardBounds: readBounds(given.reward_bounds),
    seed: whole(given.public_seed, "public_seed"),
    maxContributions: whole(given.max_contributions, "max_contributions", 1, 10_000),
    arms,
    armNames: readArmNames(given.arm_names ?? [], arms),
    epsilon: number(given.epsilon, "epsilon", ...range),
    groupSize: given.group_size ?? 1,
    honest: given.honest ?? 1,
  };
  // Before the rest is read, which may be as large as its sender likes.
  if (terms !== null) checkTerms(header, terms);
  const policy = { ...header, ...learner.read(given, header) };
  const { places, size } = policy.mechanism;
  policy.hidden = hiddenThreshold(places, size, policy.epsilon);
  return Object.freeze(policy);
};

/** Choose at a context in [0, 1]^d. */
export const actAt = (policy, unit, coin) => {
  need(policy.chooses, "people of a source have actions; give them to report().");
  whole(coin, "the public coin", 0, COINS - 1);
  const [arm, propensity] = policy.learner.act(policy, unit, coin);
  return { arm, propensity, name: policy.armNames[arm] ?? null };
};

/** Choose for a person: `{arm, propensity, name}`. */
export const act = (policy, context, coin) => actAt(policy, unitOf(policy.domain, context), coin);

/** The number of an arm that was chosen elsewhere, by number or name; what is no arm counts as the
 * nearest, and the name of none as the first. */
export const armNumber = (policy, arm) => {
  const named = typeof arm === "string" && policy.armNames.length > 0;
  const proper = named || isMissing(arm) || isNumber(arm);
  need(proper, `the arm was ${typeof arm}; give its number or its name.`);
  const place = named ? policy.armNames.indexOf(arm) : isMissing(arm) ? 0 : Number(arm);
  return Math.trunc(clip(place, 0, policy.arms - 1));
};

/** One report of signed subset selection: m places, and a sign for each. */
const privatise = ({ places, size, epsilon, own }, truth, noise) => {
  const hide = noise.words(1)[0] < hiddenThreshold(places, size, epsilon);
  const wrong = Number(below(noise, 2 * places - size) < size && hide);
  const included = !hide || wrong === 1;
  const chosen = [];
  if (size === 1) {
    const other = below(noise, Math.max(places - 1, 1));
    chosen.push(included ? own : other + Number(other >= own));
  } else if (size === places) {
    for (let place = 0; place < places; place++) chosen.push(place);
  } else {
    // The places with the smallest keys; the own key is the least, or the largest. Two equal keys
    // at the end would favour one of their places, so all are drawn again.
    let keys, sorted;
    do {
      keys = noise.words(places);
      keys[own] = included ? 0n : WORDS - 1n;
      sorted = keys.slice().sort();
    } while (sorted[size - 1] === sorted[size]);
    keys.forEach((key, place) => key <= sorted[size - 1] && chosen.push(place));
  }
  const flips = Array.from(noise.words(size), (word) => 2 * Number(word & 1n) - 1);
  const told = wrong ? -truth : truth;
  return [chosen, chosen.map((place, at) => (place === own ? told : flips[at]))];
};

export const checkReward = (reward) =>
  need(
    isMissing(reward) || typeof reward === "number",
    `the reward was ${typeof reward}; give a number, or NaN.`,
  );

/** What a report is drawn from: of a person only where their context lies. Plain values, which a
 * device keeps until it knows the reward. */
export const placeAt = (policy, unit, arm, coin) => {
  whole(coin, "the public coin", 0, COINS - 1);
  const [own, signs, range] = policy.learner.place(policy, unit, arm, coin);
  const { version, source, epsilon, mechanism } = policy;
  return { version, source, epsilon, coin, ...mechanism, own, signs, range };
};

/** The report of a reward at a place that `placeAt` gave. */
export const reportAt = (place, { lower, upper }, reward, noise) => {
  checkReward(reward);
  const [low, high] = place.range;
  const [range, width] = [high - low, upper - lower];
  const missing = lower + (range ? low + 0.5 * range : 0.5) * width;
  const given = clip(isMissing(reward) ? missing : reward, lower, upper);
  const unit = clip((given - lower) / width, 0, 1);
  const share = range ? (clip(unit, low, high) - low) / range : Number(unit >= low);
  // A word below ceil(2^64 share); at a share of 1 every word is.
  const up = noise.words(1)[0] < BigInt(Math.ceil(share * 2 ** 64));
  const [places, signs] = privatise(place, place.signs[Number(!up)], noise);
  return {
    kind: "signed-reports",
    schema: 1,
    policy_version: place.version,
    source: place.source,
    noise: noise.name,
    public_coins: [place.coin],
    places: [places],
    signs: [signs],
  };
};

/** The public coin of a report; that of a source is its question. Drawn before a person is looked
 * at. */
export const coinOf = (policy, noise) =>
  policy.chooses ? publicCoin(noise) : below(noise, policy.functions * policy.cells.partitions);

/** The fields of a person's report.
 *
 * @param action `{arm, publicCoin}` of `act`; for a source the arm, by number or name.
 * @param reward NaN or null where it is not known.
 * @param noise `secureNoise`; a second call is a second report, and costs a second epsilon. */
export const report = (policy, context, action, reward, noise) => {
  const { arm, publicCoin: coin } = policy.chooses
    ? action
    : { arm: action, publicCoin: coinOf(policy, noise) };
  const unit = unitOf(policy.domain, context);
  const place = placeAt(policy, unit, armNumber(policy, arm), coin);
  return reportAt(place, policy.rewardBounds, reward, noise);
};

/** JSON as the Python client writes it, so that reports of both have the same bytes. Within a text
 * no line breaks. */
export const jsonText = (value) =>
  JSON.stringify(value, null, 1)
    .replace(/,\n */g, ", ")
    .replace(/\n */g, "")
    .replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
