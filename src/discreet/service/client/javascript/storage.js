// Where a device keeps what belongs to one person.
//
// A storage keeps records by name, each {} at first, and has two methods:
//
//     change(fn, record = "state")
//         calls fn(value) with a copy of the record, keeps what fn made of it, and resolves with
//         what fn returned once that is on the disk. Where fn throws, or the disk fails, nothing is
//         kept and the promise is rejected. fn is synchronous, and no two of them overlap for one
//         record, in this tab or another.
//     read(record = "state")
//         resolves with a copy of the record.
//
// Records are plain: objects, lists, texts, numbers, booleans and null.

const STATE = "state";

/** Records of an IndexedDB database; a change is one readwrite transaction. */
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
      request.onupgradeneeded = () => request.result.createObjectStore(STATE);
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

  async #within(mode, record, use) {
    const database = await this.#open();
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(STATE, mode, { durability: "strict" });
      const store = transaction.objectStore(STATE);
      let result, error;
      const request = store.get(record);
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

  change(fn, record = STATE) {
    return this.#within("readwrite", record, (value, store) => {
      const result = fn(value);
      store.put(value, record);
      return result;
    });
  }

  read(record = STATE) {
    return this.#within("readonly", record, (value) => value);
  }
}

/** For tests, and for apps that keep nothing: what a person paid is forgotten with it. */
export class MemoryStorage {
  #kept = new Map();

  async change(fn, record = STATE) {
    const value = structuredClone(this.#kept.get(record) ?? {});
    const result = fn(value);
    this.#kept.set(record, structuredClone(value));
    return result;
  }

  read(record) {
    return this.change((value) => value, record);
  }
}
