"use strict";
// Everything works without this; it spares clicks, and keeps a study's page up to date.

const live = document.getElementById("live");
const toggle = document.getElementById("refresh");
const state = document.getElementById("refresh-state");
const SECONDS = 3;

for (const form of document.querySelectorAll("form[data-auto]")) {
  form.querySelector("button").hidden = true;
  form.querySelector("select").addEventListener("change", () => form.submit());
}

const print = document.getElementById("print");
if (print) {
  print.hidden = false;
  print.addEventListener("click", () => window.print());
}

// New content in place of old, with focus, scrolling and open parts as they were.
function replace(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html").body;
  const old = live.querySelectorAll("section[id]");
  const same = [...old].map((each) => each.id).join() ===
    [...fresh.querySelectorAll("section[id]")].map((each) => each.id).join();
  const focused = document.activeElement;
  const open = [...live.querySelectorAll("details[open]")].map((each) => each.id);
  const scrolled = [...live.querySelectorAll(".scroll")].map((each) => [each.id, each.scrollLeft]);
  const place = live.contains(focused) ? (focused.id || focused.getAttribute("href")) : null;
  const summary = focused && focused.tagName === "SUMMARY" ? focused.parentElement.id : null;
  for (const id of open) {
    const part = fresh.querySelector(`#${CSS.escape(id)}`);
    if (part) part.open = true;
  }
  if (same) {
    for (const section of old) {
      const other = fresh.querySelector(`#${CSS.escape(section.id)}`);
      if (section.innerHTML !== other.innerHTML) section.innerHTML = other.innerHTML;
    }
  } else {
    live.replaceChildren(...fresh.childNodes);
  }
  for (const [id, left] of scrolled) {
    const part = document.getElementById(id);
    if (part) part.scrollLeft = left;
  }
  if (place && document.activeElement !== focused) {
    const again = document.getElementById(place) || live.querySelector(`[href="${CSS.escape(place)}"]`);
    if (again) again.focus({ preventScroll: true });
  } else if (summary && !document.contains(focused)) {
    const again = document.querySelector(`#${CSS.escape(summary)} > summary`);
    if (again) again.focus({ preventScroll: true });
  }
}

async function refresh() {
  if (document.hidden || toggle.getAttribute("aria-pressed") === "true") return;
  let message = "";
  try {
    const answer = await fetch(live.dataset.live, { cache: "no-store", redirect: "error" });
    if (answer.status === 401) {
      location.assign("/login");
      return;
    }
    if (answer.ok) replace(await answer.text());
    else message = "The server refused an update.";
  } catch {
    message = "The server cannot be reached; trying again.";
  }
  if (state.textContent !== message) state.textContent = message;
}

if (live && toggle) {
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const paused = toggle.getAttribute("aria-pressed") !== "true";
    toggle.setAttribute("aria-pressed", String(paused));
    state.textContent = paused ? "Updates are paused." : "";
    if (!paused) refresh();
  });
  setInterval(refresh, 1000 * SECONDS);
}
