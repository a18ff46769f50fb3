// The page of a person who visits a study: their browser is a real device (clients/javascript).
// Beside what the device does, it shows what left, and draws what a report could have been.

import {
  Device,
  IndexedDBStorage,
  act,
  publicCoin,
  readPolicy,
  report,
  secureNoise,
} from "/visit/client/index.js";

const STUDY = "earnings";
const [ACROSS, UP] = [48, 26]; // dots of the map
const DRAWN = 1000;
const SECONDS = 2;

const $ = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const made = (tag, text = "", name = "") => {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = name;
  return element;
};
const drawn = (tag, attributes, text = "") => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
};
const show = (id, shown = true) => {
  $(id).hidden = !shown;
};
const percent = (share) => `${Math.round(100 * share)}%`;

// The person's own: one database for each person who sits here.
const person = localStorage.getItem("person") ?? crypto.randomUUID();
localStorage.setItem("person", person);
const { key } = await (await fetch("/visit/key")).json();
const device = new Device(location.origin, STUDY, {
  key,
  storage: new IndexedDBStorage(`discreet-${person}`),
});

let terms = null;
let policy = null;
let version = null;
let choice = null;
let answered = null;

/** Say what goes wrong, in place of going on as if nothing had. */
const trying = (step) => async (event) => {
  event?.preventDefault();
  try {
    await step();
    show("trouble", false);
  } catch (error) {
    $("trouble").textContent = error.message;
    show("trouble");
  }
};

// 1. Terms.

const showTerms = async () => {
  terms = await device.terms();
  const facts = [
    ["epsilon", `${terms.mostEpsilon} for one report, the only one that you send`],
    ["guesses", terms.armNames.join(", ")],
    ["asked", terms.domain.names.join(", ")],
    ["SHA-256", terms.sha256],
  ];
  $("terms").replaceChildren(
    ...facts.flatMap(([name, fact]) => [
      made("dt", name),
      made("dd", fact, name === "SHA-256" ? "digest" : ""),
    ]),
  );
  const rows = terms.domain.names.flatMap((name, column) => question(name, column));
  $("answers").replaceChildren(...rows);
  $("agree").disabled = false;
};

/** The elements that ask for one column. */
const question = (name, column) => {
  const { lower, upper, levels, categories } = terms.domain;
  const label = made("label", name);
  label.htmlFor = `answer-${column}`;
  const labels = categories[column];
  const input = document.createElement(labels.length ? "select" : "input");
  input.id = label.htmlFor;
  if (labels.length) {
    input.replaceChildren(...labels.map((each) => made("option", each)));
    return [label, input];
  }
  const output = made("output");
  const width = upper[column] - lower[column];
  Object.assign(input, {
    type: "range",
    min: lower[column],
    max: upper[column],
    step: levels[column] === null ? 1 : width / (levels[column] - 1),
  });
  input.value = lower[column] + Math.round(width / 2);
  const say = () => {
    output.textContent = input.value;
  };
  input.addEventListener("input", say);
  say();
  return [label, input, output];
};

const context = () =>
  Object.fromEntries(
    terms.domain.names.map((name, column) => {
      const { value, tagName } = $(`answer-${column}`);
      return [name, tagName === "SELECT" ? value : Number(value)];
    }),
  );

const agree = async () => {
  await device.agree(terms.sha256);
  await device.refresh();
  $("agree").hidden = true;
  show("agreed");
  $("guess").disabled = false;
};

// 2. An action, and what came of it.

const guess = async () => {
  answered = context();
  choice = await device.act(answered);
  $("arm").textContent = `Our guess: ${choice.name}`;
  $("propensity").textContent =
    `Policy ${choice.version} would have guessed this for ${percent(choice.propensity)} of the public coins.` +
    (choice.id === null ? " You have reported before, so nothing will be reported." : "");
  show("guessed");
};

const tell = (reward) => async () => {
  await device.report(choice.id, reward);
  show("guessed", false);
  await showLaw(reward);
  await showLedger();
};

// 3. and 4. What left, and what it could have been.

const showSent = (row) => {
  const meaning = {
    policy_version: "of the policy under which you acted",
    source: "the study's learner",
    noise: "where the randomness came from",
    public_coins: "drawn before anyone looked at you; it fixes the guess for every bin",
    places: "a bin of answers: yours, or one drawn at random",
    signs: "whether the guess was right (1) or wrong (-1): the truth, or drawn at random",
  };
  show("nothing", false);
  show("sent");
  $("receipt").textContent =
    `${new TextEncoder().encode(row.body).length} bytes, ${row.state} by the server:`;
  $("body").textContent = row.body;
  $("meaning").replaceChildren(
    ...Object.entries(meaning).flatMap(([name, what]) => [made("dt", name), made("dd", what)]),
  );
};

/** How often each (bin, sign) would be reported of these answers, beside what was. */
const showLaw = async (reward) => {
  const row = (await device.ledger()).findLast((each) => each.body !== null);
  if (row === undefined) return;
  showSent(row);
  const sent = JSON.parse(JSON.parse(row.body).reports[0]);
  const at = await fetchPolicy(`/policies/${sent.policy_version}`);
  const coin = sent.public_coins[0];
  const { arm } = act(at, answered, coin);
  // A bar for each sign of each bin; the truth is the likeliest of them.
  const counts = [];
  const bar = (of) => 2 * of.places[0][0] + (of.signs[0][0] > 0 ? 1 : 0);
  for (let i = 0; i < DRAWN; i += 1) {
    const each = bar(report(at, answered, { arm, publicCoin: coin }, reward, secureNoise));
    counts[each] = (counts[each] ?? 0) + 1;
  }
  const bars = Array.from({ length: 2 * Math.ceil(counts.length / 2) }, (_, i) => counts[i] ?? 0);
  const top = Math.max(...bars);
  const [own, reported] = [bars.indexOf(top), bar(sent)];
  const [left, bottom, height] = [44, 176, 160];
  const width = (600 - left) / bars.length;
  const marks = [0, 0.25, 0.5, 0.75, 1].map((share) => [share, bottom - (height * share * DRAWN) / top]);
  $("law").replaceChildren(
    ...marks
      .filter(([share]) => share * DRAWN <= top)
      .flatMap(([share, y]) => [
        drawn("line", { class: "rule", x1: left, x2: 600, y1: y, y2: y }),
        drawn("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, percent(share)),
      ]),
    ...bars.flatMap((count, i) => {
      const tall = (height * count) / top;
      const kind = `${i === own ? "own" : ""} ${i === reported ? "reported" : ""}`.trim();
      const x = left + i * width + (i % 2 ? 1 : 3);
      const rect = drawn("rect", { class: kind, x, y: bottom - tall, width: width - 4, height: tall });
      const label = { x: left + i * width, y: bottom + 18, "text-anchor": "middle" };
      return i % 2 ? [rect, drawn("text", label, (i - 1) / 2)] : [rect];
    }),
    drawn(
      "text",
      { x: left + (600 - left) / 2, y: 216, "text-anchor": "middle" },
      "bin reported, with the sign − (left bar) or + (right bar)",
    ),
  );
  const bound = Math.exp(terms.mostEpsilon);
  $("law-text").textContent =
    `Your report drawn ${DRAWN.toLocaleString("en")} times, none sent. Blue is the truth; outlined is what left. ` +
    `Whatever you had answered, each of them would have been at most exp(${terms.mostEpsilon}) = ${bound.toFixed(0)} times as likely, or as unlikely.`;
  show("law-before", false);
  show("law-after");
};

// 5. The policy, which is public.

const fetchPolicy = async (path = "/policy") => {
  const answer = await fetch(`/v1/studies/${STUDY}${path}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return readPolicy(await answer.text());
};

/** A dot for each place of two columns: what a visitor there would be given, by a coin of theirs. */
const showMap = () => {
  const canvas = $("map");
  const { clientWidth: wide, clientHeight: high } = canvas;
  if (wide < 100) return;
  const scale = globalThis.devicePixelRatio ?? 1;
  canvas.width = wide * scale;
  canvas.height = high * scale;
  const paint = canvas.getContext("2d");
  paint.scale(scale, scale);
  paint.clearRect(0, 0, wide, high);
  paint.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  const { names, lower, upper } = terms.domain;
  const [left, bottom] = [44, 42];
  const mine = context();
  const [dx, dy] = [(wide - left - 8) / ACROSS, (high - bottom - 8) / UP];
  const fills = [0, 1, 2].map((arm) => colour(`--arm-${arm}`));
  for (let i = 0; i < ACROSS; i += 1) {
    for (let j = 0; j < UP; j += 1) {
      const there = {
        ...mine,
        [names[0]]: lower[0] + ((i + 0.5) / ACROSS) * (upper[0] - lower[0]),
        [names[1]]: lower[1] + ((j + 0.5) / UP) * (upper[1] - lower[1]),
      };
      const { arm } = act(policy, there, publicCoin(secureNoise));
      paint.fillStyle = fills[arm];
      paint.beginPath();
      paint.arc(left + (i + 0.5) * dx, high - bottom - (j + 0.5) * dy, Math.min(dx, dy) * 0.42, 0, 7);
      paint.fill();
    }
  }
  paint.fillStyle = colour("--soft");
  paint.textAlign = "center";
  for (const share of [0, 0.5, 1]) {
    const [x, y] = [left + share * (wide - left - 8), high - bottom - share * (high - bottom - 8)];
    paint.textAlign = share === 1 ? "right" : "center";
    paint.fillText((lower[0] + share * (upper[0] - lower[0])).toFixed(0), x, high - bottom + 18);
    paint.textAlign = "right";
    paint.fillText((lower[1] + share * (upper[1] - lower[1])).toFixed(0), left - 6, y + (share === 1 ? 12 : 4));
  }
  paint.textAlign = "center";
  paint.fillText(names[0], left + (wide - left) / 2, high - 6);
  paint.save();
  paint.translate(12, (high - bottom) / 2);
  paint.rotate(-Math.PI / 2);
  paint.fillText(names[1], 0, 0);
  paint.restore();
  $("key").replaceChildren(
    ...policy.armNames.flatMap((name, arm) => [made("span", "", `arm${arm}`), made("b", name)]),
  );
  const rest = names.slice(2).map((name) => `${name} ${mine[name]}`);
  $("map-text").textContent =
    `Policy ${policy.version}: what each visitor of that ${names[0]} and ${names[1]} would be guessed` +
    `${rest.length ? `, ${rest.join(", ")}` : ""}. Anyone may read it.`;
};

// 6. The ledger.

const showLedger = async () => {
  const rows = await device.ledger();
  const { epsilon, mostEpsilon } = await device.spending();
  show("ledger", rows.length > 0);
  $("spent").textContent = rows.length
    ? `You have paid epsilon ${epsilon} of the ${mostEpsilon} that you allow over all studies.`
    : "You have paid nothing.";
  $("ledger").tBodies[0].replaceChildren(
    ...rows.map((row) => {
      const line = made("tr");
      const cells = [row.number, new Date(1000 * row.made).toLocaleTimeString(), row.version, row.epsilon];
      const bytes = row.body === null ? "none" : new TextEncoder().encode(row.body).length;
      line.append(...[...cells, bytes].map((each) => made("td", String(each))), made("td", row.state, "text"));
      return line;
    }),
  );
  const last = rows.findLast((row) => row.body !== null);
  if (last !== undefined) showSent(last);
};

const follow = async () => {
  const latest = await fetchPolicy();
  $("state").textContent = `policy ${latest.version}`;
  if (latest.version !== version) {
    policy = latest;
    version = latest.version;
    showMap();
    if ($("agree").hidden) await device.refresh();
  }
};

$("agree").addEventListener("click", trying(agree));
$("guess").addEventListener("click", trying(guess));
$("answers").addEventListener("submit", trying(guess));
$("answers").addEventListener("change", () => policy && showMap());
$("right").addEventListener("click", trying(tell(1)));
$("wrong").addEventListener("click", trying(tell(0)));
$("forget").addEventListener("click", () => {
  localStorage.removeItem("person");
  location.reload();
});
addEventListener("resize", () => policy && showMap());
await trying(async () => {
  await showTerms();
  await follow();
  await showLedger();
})();
setInterval(trying(follow), 1000 * SECONDS);
