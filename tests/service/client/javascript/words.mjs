// Sources of stated words, for tests; no device has them.

import { secureNoise } from "../../../../src/discreet/service/client/javascript/index.js";
import { STEP, mix, word64 } from "../../../../src/discreet/service/client/javascript/protocol.js";

const source = (word) => {
  let place = 0;
  return {
    name: secureNoise.name,
    words: (count) => BigUint64Array.from({ length: count }, () => word(place++)),
  };
};

/** The words of SplitMix64 from a seed. */
export const seeded = (seed) =>
  source((place) => mix(word64(BigInt(seed) + BigInt(place + 1) * STEP)));

/** Words from a list, in order. */
export const listed = (words) =>
  source((place) => {
    if (place >= words.length) throw new Error(`only ${words.length} words were given`);
    return BigInt(words[place]);
  });
