// Sources of stated words, for tests; no device has them.

import { secureNoise } from "../../../../src/discreet/service/client/javascript/index.js";

const STEP = 0x9e3779b97f4a7c15n;
const word64 = (value) => BigInt.asUintN(64, value);
const mix = (word) => {
  let mixed = word64((word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = word64((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return mixed ^ (mixed >> 31n);
};

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
