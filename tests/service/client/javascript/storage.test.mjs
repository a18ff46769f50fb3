// Storages: a change is kept as a whole or not at all, and no two overlap.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { Device, IndexedDBStorage, MemoryStorage } from "../../../../src/discreet/service/client/javascript/index.js";
import { QUICK, Service, kernelPolicy } from "./fixtures.mjs";

/** As much of IndexedDB as a storage uses: transactions in line, which end once no request is
 * left when a task has run. */
class FakeIndexedDB {
  kept = new Map();
  #line = Promise.resolve();
  refuses = false;

  open() {
    const request = { result: this };
    queueMicrotask(() => {
      request.onupgradeneeded?.();
      request.onsuccess();
    });
    return request;
  }

  createObjectStore() {}

  transaction(_, mode) {
    const requests = [];
    let changed = null;
    let open = true;
    const transaction = {
      error: null,
      abort() {
        open = false;
        transaction.onabort();
      },
      objectStore: () => ({
        get: (key) => {
          const request = { read: () => (request.result = structuredClone(this.kept.get(key))) };
          requests.push(request);
          return request;
        },
        put: (value, key) => {
          assert.ok(open && mode === "readwrite", "the transaction has ended");
          changed = [key, structuredClone(value)];
        },
      }),
    };
    this.#line = this.#line.then(async () => {
      await new Promise((resolve) => setImmediate(resolve));
      for (const request of requests) {
        request.read();
        request.onsuccess();
      }
      if (!open) return;
      await new Promise((resolve) => setImmediate(resolve));
      open = false;
      if (changed !== null && this.refuses) {
        transaction.error = new Error("QuotaExceededError");
        transaction.onabort();
        return;
      }
      if (changed !== null) this.kept.set(...changed);
      transaction.oncomplete();
    });
    return transaction;
  }
}

beforeEach(() => {
  globalThis.indexedDB = new FakeIndexedDB();
});
afterEach(() => {
  delete globalThis.indexedDB;
});

for (const make of [() => new MemoryStorage(), () => new IndexedDBStorage("person")]) {
  const name = make().constructor.name;

  test(`${name}: a change is kept as a whole, or not at all`, async () => {
    const storage = make();
    assert.deepEqual(await storage.read(), {});
    assert.equal(await storage.change((state) => (state.count = 1)), 1);
    const thrown = new Error("no");
    await assert.rejects(
      storage.change((state) => {
        state.count = 2;
        throw thrown;
      }),
      thrown,
    );
    assert.deepEqual(await storage.read(), { count: 1 });
    (await storage.read()).count = 9;
    let leaked;
    await storage.change((state) => {
      leaked = state;
    });
    leaked.count = 9;
    assert.deepEqual(await storage.read(), { count: 1 });
  });

  test(`${name}: changes at once come one after the other`, async () => {
    const storage = make();
    const more = (state) => {
      state.count = (state.count ?? 0) + 1;
    };
    await Promise.all(Array.from({ length: 20 }, () => storage.change(more)));
    assert.deepEqual(await storage.read(), { count: 20 });
  });
}

test("two tabs with one database decide in one transaction", async () => {
  const { Device: Other } = await import("../../../../src/discreet/service/client/javascript/device.js?another");
  const service = new Service(kernelPolicy());
  const options = {
    key: "dk_1",
    agreed: service.terms.sha256,
    fetch: service.fetch,
    patience: QUICK,
  };
  const tabs = [Device, Other].map(
    (kind) =>
      new kind("https://trial.example.org", "visits", {
        ...options,
        storage: new IndexedDBStorage("person"),
      }),
  );
  const choices = await Promise.all(tabs.map((tab) => tab.act({ x: 1 })));
  const ids = choices.map(({ id }) => id).filter((id) => id !== null);
  assert.equal(ids.length, 1);
  await Promise.all(tabs.map((tab) => tab.report(ids[0], 1)));
  assert.ok(service.stored.size <= 1);
  assert.equal((await tabs[0].ledger()).length, 1);
});

test("nothing is drawn where the disk keeps no mark", async () => {
  const service = new Service(kernelPolicy());
  const device = new Device("https://trial.example.org", "visits", {
    ...{ key: "dk_1", agreed: service.terms.sha256, fetch: service.fetch, patience: QUICK },
    storage: new IndexedDBStorage("person"),
  });
  const { id } = await device.act({ x: 1 });
  indexedDB.refuses = true;
  await assert.rejects(device.report(id, 1), /Quota/);
  assert.deepEqual([await device.ledger(), service.bodies], [[], []]);
  indexedDB.refuses = false;
  assert.equal(await device.report(id, 1), true);
  assert.equal(service.stored.size, 1);
});
