/** Keys, signatures, pads and seals: "Secrets" in docs/protocol.md, by Node's own cryptography. */

import crypto from 'node:crypto';

import { fromBytes } from './numbers.mjs';
import { refuse } from './wire.mjs';

const NONCE = Buffer.alloc(12);

// Keys are raw on the wire; Node takes and gives them as DER.
const [X, ED] = ['6e', '70'];
const der = (prefix, raw, type) => ({ key: Buffer.concat([Buffer.from(prefix, 'hex'), raw]), format: 'der', type });
const privateKey = (curve, raw) => crypto.createPrivateKey(der(`302e020100300506032b65${curve}04220420`, raw, 'pkcs8'));
const publicKey = (curve, raw) => crypto.createPublicKey(der(`302a300506032b65${curve}032100`, raw, 'spki'));
const rawPublic = (key) => crypto.createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32);

function part(value) {
  if (typeof value === 'string') return Buffer.from(value);
  if (Buffer.isBuffer(value)) return value;
  const found = Buffer.alloc(8);
  found.writeBigUInt64BE(BigInt(value));
  return found;
}

/** What is hashed, signed and derived from: before each part its length, 8 bytes, big endian. So is a number. */
export const pack = (...parts) => Buffer.concat(parts.map(part).flatMap((one) => [part(one.length), one]));

const textOf = (what, parts) => pack(`codedfl 4 ${what}`, ...parts);

export const sha256 = (data) => crypto.createHash('sha256').update(data).digest();

const hkdf = (secret, info) => Buffer.from(crypto.hkdfSync('sha256', secret, Buffer.alloc(0), info, 32));

export const derive = (secret, what, ...info) => hkdf(secret, textOf(what, info));

const signingKey = (secret) => privateKey(ED, hkdf(secret, Buffer.from('codedfl v2|identity ed25519')));

export const identityOf = (secret) => rawPublic(signingKey(secret));

export const sign = (secret, what, ...parts) => crypto.sign(null, textOf(what, parts), signingKey(secret));

export function isSigned(identity, signature, what, ...parts) {
  try {
    return crypto.verify(null, textOf(what, parts), publicKey(ED, identity), signature);
  } catch {
    return false;
  }
}

export const publicOf = (key) => rawPublic(privateKey(X, key));

/** What the owners of two X25519 keys have in common; public halves of small order are refused. */
export function shared(key, other) {
  try {
    return crypto.diffieHellman({ privateKey: privateKey(X, key), publicKey: publicKey(X, other) });
  } catch {
    return refuse('request');
  }
}

/** 16 bytes that only this device can make, and makes again from the same parts. */
export function keyedHash(scope, root, what, ...parts) {
  const mac = crypto.createHmac('sha256', derive(root, 'siv', ...scope));
  return mac.update(textOf(what, parts)).digest().subarray(0, 16);
}

export const labelOf = (study, ask) => pack(study, sha256(ask));

/** Of one pad. `owner`: study, name and A; `secret` is shared by a and B, or by b and A. */
export function padKey(secret, role, [study, name, own], rolePublic, label, nonce) {
  return derive(derive(secret, 'kappa', study, role, name, own, rolePublic), 'pad', label, nonce);
}

/** Words `first` to `first + count` - 1 of a pad: a part of ChaCha20's key stream. */
export function pad(key, bits, first, count) {
  const start = (first * bits) / 8;
  const counter = Buffer.alloc(16);
  counter.writeUInt32LE(Math.floor(start / 64));
  const stream = crypto.createCipheriv('chacha20', key, counter);
  return fromBytes(bits, stream.update(Buffer.alloc((start % 64) + (count * bits) / 8)).subarray(start % 64));
}

function seal(key, plain, beside = Buffer.alloc(0)) {
  const cipher = crypto.createCipheriv('chacha20-poly1305', key, NONCE, { authTagLength: 16 });
  cipher.setAAD(beside, { plaintextLength: plain.length });
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

/** The key that seals b to a co-holder: `drawer` and `holder` are the two A that share `secret`. */
const roleSeal = (scope, secret, role, drawer, holder, rolePublic) =>
  derive(secret, 'sealed role key', ...scope, role, drawer, holder, rolePublic);

export const sealRoleKey = (b, ...of) => seal(roleSeal(...of), b);

export function openRoleKey(sealed, ...of) {
  try {
    const cipher = crypto.createDecipheriv('chacha20-poly1305', roleSeal(...of), NONCE, { authTagLength: 16 });
    cipher.setAuthTag(sealed.subarray(-16));
    return Buffer.concat([cipher.update(sealed.subarray(0, -16)), cipher.final()]);
  } catch {
    return refuse('role');
  }
}

/** The tag, which no other plaintext has, and the seal; the digest of the request is authenticated with it. */
export function sealReply(scope, root, a, server, asked, plain) {
  const tag = keyedHash(scope, root, 'reply', asked, plain);
  const key = derive(shared(a, server), 'reply', ...scope, publicOf(a), server, asked, tag);
  return Buffer.concat([tag, seal(key, plain, asked)]);
}
