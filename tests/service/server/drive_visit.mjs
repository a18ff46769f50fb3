// Visits the page of the demo in headless Chromium, as a person would:
//   node drive_visit.mjs CHROMIUM ADDRESS FOLDER
// Prints what the person sees, as JSON. Node 22 or newer, for its WebSocket.

import { spawn } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";

const [, , chromium, address, folder] = process.argv;
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"];
const quiet = ["--disable-background-networking", "--disable-component-update", "--disable-quic"];
const own = [`--user-data-dir=${folder}`, "--remote-debugging-port=0", "--window-size=1280,1000"];
const browser = spawn(chromium, [...flags, ...quiet, ...own, "about:blank"]);
const endpoint = await new Promise((found, failed) => {
  let said = "";
  browser.stderr.on("data", (data) => {
    said += data;
    const match = /DevTools listening on (ws:\S+)/.exec(said);
    if (match) found(new URL(match[1]));
  });
  browser.on("exit", () => failed(new Error(said)));
});

const until = async (ask) => {
  for (let i = 0; i < 400; i += 1) {
    const value = await ask();
    if (value) return value;
    await pause(50);
  }
  throw new Error(`waited in vain for ${ask}`);
};

try {
  const pages = await until(async () => {
    const listed = await (await fetch(`http://${endpoint.host}/json`)).json();
    return listed.filter((each) => each.type === "page");
  });
  const socket = new WebSocket(pages[0].webSocketDebuggerUrl);
  await new Promise((opened) => socket.addEventListener("open", opened));
  const waiting = new Map();
  const requests = [];
  const thrown = [];
  socket.addEventListener("message", ({ data }) => {
    const { id, method, params, result, error } = JSON.parse(data);
    if (id) waiting.get(id)(error ?? result);
    if (method === "Network.requestWillBeSent") requests.push(params.request);
    if (method === "Runtime.exceptionThrown") thrown.push(params.exceptionDetails.text);
  });
  let number = 0;
  const send = (method, params = {}) =>
    new Promise((answered) => {
      number += 1;
      waiting.set(number, answered);
      socket.send(JSON.stringify({ id: number, method, params }));
    });
  const read = async (expression) =>
    (await send("Runtime.evaluate", { expression, returnByValue: true })).result.value;
  const text = (id) => read(`document.getElementById("${id}").textContent`);
  const click = (id) => read(`document.getElementById("${id}").click()`);
  const shown = (id) =>
    until(() => read(`!document.getElementById("${id}")?.hidden && !document.getElementById("${id}")?.disabled`));
  const rows = () => read('document.querySelectorAll("#ledger tbody tr").length');
  const open = async () => {
    await send("Page.navigate", { url: `${address}/visit` });
    await until(() => read('document.readyState === "complete" && document.querySelectorAll("#terms dd").length'));
  };

  for (const domain of ["Page", "Runtime", "Network"]) await send(`${domain}.enable`);
  await open();
  await shown("agree");
  const before = await rows();
  await click("agree");
  await shown("guess");
  await read('document.getElementById("answer-0").value = 60');
  await click("guess");
  await shown("guessed");
  const guess = await text("arm");
  await click("right");
  await shown("sent");
  await shown("told");
  const seen = {
    guess,
    body: await text("body"),
    receipt: await text("receipt"),
    law: await text("law-text"),
    bars: await read('document.querySelectorAll("#law rect").length'),
  };
  await open();
  await shown("agree");
  const after = await until(rows);
  await click("agree");
  await shown("guess");
  await click("guess");
  await shown("guessed");
  const again = await text("propensity");
  const trouble = await read('document.getElementById("trouble").hidden ? "" : document.getElementById("trouble").textContent');
  const painted = await read(
    '(() => { const c = document.getElementById("map"); return new Set(c.getContext("2d").getImageData(0, 0, c.width, c.height).data).size; })()',
  );
  const posted = requests.filter((each) => each.method === "POST");
  const foreign = requests.map((each) => each.url).filter((url) => !url.startsWith(address));
  console.log(
    JSON.stringify({
      ...seen,
      rows: [before, after],
      again,
      trouble,
      painted,
      thrown,
      foreign,
      posted: posted.map((each) => each.postData),
      urls: requests.map((each) => new URL(each.url).pathname),
    }),
  );
} finally {
  browser.removeAllListeners("exit");
  browser.kill();
}
