export { Device, Refused, Unreachable } from "./device.js";
export { secureNoise } from "./noise.js";
export {
  InvalidInput,
  act,
  checkTerms,
  publicCoin,
  readPolicy,
  readTerms,
  report,
} from "./protocol.js";
export { IndexedDBStorage, MemoryStorage } from "./storage.js";
