// Keys, signatures, envelopes, pads and commitments, by Node's own cryptography: the page's section "Secrets".

import crypto from 'node:crypto';

export const EMPTY = new Uint8Array(0);

/** Every check of this device: what does not hold is a refusal, and its reason is for this device's own log. */
export function must(holds, rule) {
  if (!holds) throw new Error(`refused: ${rule}`);
}

export const same = (a, b) => Buffer.compare(a, b) === 0;
export const hex = (bytes) => Buffer.from(bytes).toString('hex');

export function sha256(...parts) {
  const hash = crypto.createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

const derive = (secret, salt, info) => Buffer.from(crypto.hkdfSync('sha256', secret, salt, info, 32));

// Keys travel raw, and Node takes them as DER.
const [X25519, ED25519] = ['6e', '70'];
function privateKey(curve, raw) {
  const key = Buffer.concat([Buffer.from(`302e020100300506032b65${curve}04220420`, 'hex'), raw]);
  return crypto.createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}
function publicKey(curve, raw) {
  must(raw.length === 32, 'a public key has 32 bytes');
  const key = Buffer.concat([Buffer.from(`302a300506032b65${curve}032100`, 'hex'), raw]);
  return crypto.createPublicKey({ key, format: 'der', type: 'spki' });
}
const rawPublic = (key) => crypto.createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32);

const signingKey = (secret) => privateKey(ED25519, derive(secret, EMPTY, 'codedfl v2|identity ed25519'));
export const identityOf = (secret) => rawPublic(signingKey(secret));
export const sign = (secret, message) => crypto.sign(null, message, signingKey(secret));
export const verify = (identity, message, signature) => must(
  crypto.verify(null, message, publicKey(ED25519, identity), signature), 'a signature is by its party');

export const publicOf = (key) => rawPublic(privateKey(X25519, key));

/** What the owners of two keys have in common; OpenSSL throws for a public key of small order. */
export const agreedSecret = (key, other) => crypto.diffieHellman(
  { privateKey: privateKey(X25519, key), publicKey: publicKey(X25519, other) });

const sealKey = (secret, fresh, sender, receiver) => derive(
  secret, fresh, Buffer.concat([Buffer.from('codedfl v2|seal|'), sender, receiver]));
const AEAD = ['chacha20-poly1305', Buffer.alloc(12), { authTagLength: 16 }];

/** Fresh public key | ciphertext | tag. `sender` and `fresh` are private keys, `receiver` a public one. */
export function seal(sender, receiver, context, plaintext, fresh) {
  const secret = Buffer.concat([agreedSecret(fresh, receiver), agreedSecret(sender, receiver)]);
  const key = sealKey(secret, publicOf(fresh), publicOf(sender), receiver);
  const cipher = crypto.createCipheriv(AEAD[0], key, AEAD[1], AEAD[2]).setAAD(context);
  return Buffer.concat([publicOf(fresh), cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}

export function openSealed(receiver, sender, context, sealed) {
  must(sealed.length >= 48, 'an envelope has a key and a tag');
  const fresh = sealed.subarray(0, 32);
  const secret = Buffer.concat([agreedSecret(receiver, fresh), agreedSecret(receiver, sender)]);
  const key = sealKey(secret, fresh, sender, publicOf(receiver));
  const decipher = crypto.createDecipheriv(AEAD[0], key, AEAD[1], AEAD[2]);
  decipher.setAAD(context).setAuthTag(sealed.subarray(-16));
  return Buffer.concat([decipher.update(sealed.subarray(32, -16)), decipher.final()]);
}

const SEGMENT = 65536;

/** Add `count` numbers of a pad to these planes, from place `at` on. */
export function addPad(planes, primes, at, seed, label, count, pair = [0, 0]) {
  primes.forEach((p, k) => {
    const [key, plane] = [derive(seed, EMPTY, `codedfl pad v2|${label}|${k}`), planes[k]];
    for (let segment = 0, i = 0; i < count; segment++) {
      const nonce = Buffer.from(Uint32Array.of(0, segment, ...pair).buffer); // little endian, as all machines of Node
      const [stream, end] = [crypto.createCipheriv('chacha20', key, nonce), Math.min(count, (segment + 1) * SEGMENT)];
      while (i < end) {
        const bytes = stream.update(Buffer.alloc(3 * (end - i)));
        for (let from = 0; from < bytes.length; from += 3) {
          const candidate = bytes[from] | (bytes[from + 1] << 8) | (bytes[from + 2] << 16);
          if (candidate < p) { plane[at + i] = (plane[at + i] + candidate) % p; i++; }
        }
      }
    }
  });
}

export const commitment = (seed, agreement, owner, purpose) => sha256(
  'codedfl commitment v3|', agreement, `${purpose}|${owner}|`, seed);
