// Keys, signatures, seals and pads, by Node's own cryptography: the page's "Secrets".

import crypto from 'node:crypto';
import { must } from './msgpack.mjs';

const NONE = Buffer.alloc(0);
export const same = (a, b) => Buffer.compare(a, b) === 0;
export const sha256 = (data) => crypto.createHash('sha256').update(data).digest();

const asBytes = (part) => {
  if (part instanceof Uint8Array) return part;
  if (typeof part === 'string') return Buffer.from(part);
  const found = Buffer.alloc(8);
  found.writeBigUInt64BE(BigInt(part));
  return found;
};

/** Parts with their lengths in front. */
export const pack = (...parts) => Buffer.concat(parts.map(asBytes).flatMap((part) => [asBytes(part.length), part]));
const named = (what, parts) => pack(`codedfl 4 ${what}`, ...parts);

const hkdf = (secret, info) => Buffer.from(crypto.hkdfSync('sha256', secret, NONE, info, 32));
export const derive = (secret, what, ...info) => hkdf(secret, named(what, info));

// Keys travel raw, and Node takes them as DER.
const [X25519, ED25519] = ['6e', '70'];
const privateKey = (curve, raw) => crypto.createPrivateKey(
  { key: Buffer.concat([Buffer.from(`302e020100300506032b65${curve}04220420`, 'hex'), raw]), format: 'der', type: 'pkcs8' });
const publicKey = (curve, raw) => crypto.createPublicKey(
  { key: Buffer.concat([Buffer.from(`302a300506032b65${curve}032100`, 'hex'), raw]), format: 'der', type: 'spki' });
const rawPublic = (key) => crypto.createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32);

const signingKey = (secret) => privateKey(ED25519, hkdf(secret, 'codedfl v2|identity ed25519'));
export const identityOf = (secret) => rawPublic(signingKey(secret));
export const sign = (secret, what, ...parts) => crypto.sign(null, named(what, parts), signingKey(secret));

export function isSigned(identity, signature, what, ...parts) {
  try {
    return crypto.verify(null, named(what, parts), publicKey(ED25519, identity), signature);
  } catch {
    return false;
  }
}

export const publicOf = (key) => rawPublic(privateKey(X25519, key));

/** What the owners of two keys have in common; OpenSSL throws for a public key of small order. */
export function shared(key, other) {
  let found = NONE;
  try {
    found = crypto.diffieHellman({ privateKey: privateKey(X25519, key), publicKey: publicKey(X25519, other) });
  } catch { /* refused below */ }
  must(found.some((byte) => byte), 'request');
  return found;
}

/** 16 bytes that only the owner of a root can make, and makes again. */
export const keyedHash = (scope, root, what, ...parts) => crypto
  .createHmac('sha256', derive(root, 'siv', ...scope)).update(named(what, parts)).digest().subarray(0, 16);

export const labelOf = (study, ask) => pack(study, sha256(ask));

export const padKey = (secret, role, [study, name, enrolled], rolePublic, label, nonce) => derive(
  derive(secret, 'kappa', study, role, name, enrolled, rolePublic), 'pad', label, nonce);

/** `count` bytes of a pad, from byte `first` on. */
export function padBytes(key, first, count) {
  const [iv, skipped] = [Buffer.alloc(16), first % 64];
  iv.writeUInt32LE((first - skipped) / 64);
  return crypto.createCipheriv('chacha20', key, iv).update(Buffer.alloc(skipped + count)).subarray(skipped);
}

// -- seals: ciphertext and tag, under a key that is used once, with a nonce of zeros

const AEAD = ['chacha20-poly1305', Buffer.alloc(12), { authTagLength: 16 }];

function seal(key, plain, bound = NONE) {
  const cipher = crypto.createCipheriv(AEAD[0], key, AEAD[1], AEAD[2]).setAAD(bound);
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function opened(key, sealed, code) {
  must(sealed.length >= 16, code);
  const decipher = crypto.createDecipheriv(AEAD[0], key, AEAD[1], AEAD[2]).setAuthTag(sealed.subarray(-16));
  const found = decipher.update(sealed.subarray(0, -16));
  try { decipher.final(); } catch { must(false, code); }
  return found;
}

const roleSealKey = (scope, secret, role, drawer, holder, rolePublic) => derive(
  secret, 'sealed role key', ...scope, role, drawer, holder, rolePublic);

export const sealRoleKey = (scope, a, role, holder, b) => seal(
  roleSealKey(scope, shared(a, holder), role, publicOf(a), holder, publicOf(b)), b);

export const openRoleKey = (scope, a, role, drawer, rolePublic, sealed) => opened(
  roleSealKey(scope, shared(a, drawer), role, drawer, publicOf(a), rolePublic), sealed, 'role');

export function sealReply(scope, root, a, server, request, plain) {
  const tag = keyedHash(scope, root, 'reply', request, plain);
  const key = derive(shared(a, server), 'reply', ...scope, publicOf(a), server, request, tag);
  return Buffer.concat([tag, seal(key, plain, request)]);
}
