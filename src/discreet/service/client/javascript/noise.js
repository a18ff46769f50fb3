// Random words of the operating system's generator.

// Bytes that one call of getRandomValues gives at most, in words.
const MOST_WORDS = 8192;

/** The source of reports of people, under the name that services know. */
export const secureNoise = Object.freeze({
  name: "SecureNoise (OpenDP and the operating system's generator)",
  /** Independent uniform 64-bit words. */
  words(count) {
    const words = new BigUint64Array(count);
    for (let start = 0; start < count; start += MOST_WORDS) {
      crypto.getRandomValues(words.subarray(start, start + MOST_WORDS));
    }
    return words;
  },
});
