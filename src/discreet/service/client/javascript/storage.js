// Where a device keeps what belongs to one person.
//
// A storage has two methods:
//
//     change(fn)   calls fn(state) with a copy of what is kept ({} at first), keeps what fn made of
//                  it, and resolves with what fn returned once that is on the disk. Where fn
//                  throws, or the disk fails, nothing is kept and the promise is rejected. fn is
//                  synchronous, and no two of them overlap, in this tab or another.
//     read()       resolves with a copy of what is kept.
//
// The state is plain: objects, lists, texts, numbers, booleans and null.

const RECORD = "state";

/** One record of an IndexedDB database; a change is one readwrite transaction. */
export class IndexedDBStorage {
  #name;
  #opened = null;

  /** @param name of the database; one person has one, whatever studies they take part in. */
  constructor(name) {
    this.#name = name;
  }

  #open() {
    this.#opened ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(this.#name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(RECORD);
      const forget = () => (this.#opened = null);
      request.onsuccess = () => {
        request.result.onclose = forget;
        resolve(request.result);
      };
      request.onerror = () => {
        forget();
        reject(request.error);
      };
    });
    return this.#opened;
  }

  async #within(mode, use) {
    const database = await this.#open();
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(RECORD, mode, { durability: "strict" });
      const store = transaction.objectStore(RECORD);
      let result, error;
      const request = store.get(RECORD);
      request.onsuccess = () => {
        try {
          result = use(request.result ?? {}, store);
        } catch (thrown) {
          error = thrown;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = () => reject(error ?? transaction.error);
    });
  }

  change(fn) {
    return this.#within("readwrite", (state, store) => {
      const result = fn(state);
      store.put(state, RECORD);
      return result;
    });
  }

  read() {
    return this.#within("readonly", (state) => state);
  }
}

/** For tests, and for apps that keep nothing: what a person paid is forgotten with it. */
export class MemoryStorage {
  #state = {};

  async change(fn) {
    const state = structuredClone(this.#state);
    const result = fn(state);
    this.#state = structuredClone(state);
    return result;
  }

  async read() {
    return structuredClone(this.#state);
  }
}
