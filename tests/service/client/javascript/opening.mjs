// The learner's side of an encrypted report, for tests; no device has it.

import { messageKey } from "../../../../src/discreet/service/client/javascript/seal.js";

export const bytesOf = (digits) =>
  Uint8Array.from(digits.match(/../g) ?? [], (each) => parseInt(each, 16));
export const digitsOf = (bytes) => Buffer.from(bytes).toString("hex");
const text64 = (digits) => Buffer.from(digits, "hex").toString("base64url");

/** A pair of keys of X25519 from their digits. */
export const pairOf = async (secret, open) => {
  const key = { kty: "OKP", crv: "X25519", x: text64(open), d: text64(secret) };
  return {
    privateKey: await crypto.subtle.importKey("jwk", key, { name: "X25519" }, true, ["deriveBits"]),
    publicKey: await crypto.subtle.importKey("raw", bytesOf(open), { name: "X25519" }, true, []),
  };
};

/** The text of a ciphertext that goes behind its sender's public key. */
export const opened = async (bytes, pair, received, info, additionalData = new Uint8Array()) => {
  const sent = bytes.slice(0, 32);
  const from = await crypto.subtle.importKey("raw", sent, { name: "X25519" }, true, []);
  const agreement = { name: "X25519", public: from };
  const shared = new Uint8Array(await crypto.subtle.deriveBits(agreement, pair.privateKey, 256));
  const { key, nonce } = await messageKey(shared, sent, received, info);
  const cipher = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["decrypt"]);
  const how = { name: "AES-GCM", iv: nonce, additionalData };
  return new Uint8Array(await crypto.subtle.decrypt(how, cipher, bytes.slice(32)));
};

/** The text of what a device sent under a policy. */
export const openedReport = async (body, pair, received) => {
  const { policy, ciphertext } = JSON.parse(body);
  const info = new TextEncoder().encode(`discreet report under policy ${policy}`);
  const bytes = new Uint8Array(Buffer.from(ciphertext, "base64"));
  return new TextDecoder().decode(await opened(bytes, pair, bytesOf(received), info));
};
