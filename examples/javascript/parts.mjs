// The parts of the protocol that have no state: numbers, secrets, messages (docs/protocol.md, the first three sections).
// A vector of ring numbers is a list of planes, one per prime, each a list of residues: no number here passes 2^53.

import crypto from "node:crypto";
import { decode, encode } from "@msgpack/msgpack";

export const VERSION = 3;
const SEGMENT = 65536;
const CHUNK = 2 ** 20;

export class Refusal extends Error {}

export function must(holds, rule) {
  if (!holds) throw new Refusal(rule);
}

// -- numbers

export const range = (count, start = 0) => Array.from({ length: count }, (_, i) => start + i);
const mod = (x, p) => ((x % p) + p) % p;

export function primesFor(divisor, count = 2) {
  const found = [];
  const isPrime = (n) => range(Math.floor(Math.sqrt(n)) - 1, 2).every((q) => n % q);
  for (let candidate = Math.floor((2 ** 24 - 2) / divisor) * divisor + 1; found.length < count; candidate -= divisor)
    if (isPrime(candidate)) found.push(candidate);
  return found;
}

export const product = (primes) => primes.reduce((m, p) => m * BigInt(p), 1n);
export const onRing = (numbers, primes) =>
  primes.map((p) =>
    numbers.map((x) => (typeof x === "bigint" ? Number(((x % BigInt(p)) + BigInt(p)) % BigInt(p)) : mod(x, p))),
  );
export const add = (left, right, primes) => primes.map((p, k) => left[k].map((a, i) => (a + right[k][i]) % p));
export const joined = (parts, primes) => primes.map((_, k) => parts.flatMap((part) => part[k]));

export function pack(planes) {
  const data = Buffer.alloc(3 * planes.length * planes[0].length);
  planes.flat().forEach((residue, i) => data.writeUIntLE(residue, 3 * i, 3));
  return data;
}

export function unpack(data, primes, count) {
  must(data.length === 3 * count * primes.length, "a packed number takes three bytes per prime");
  const planes = primes.map((_, k) => range(count, k * count).map((i) => data.readUIntLE(3 * i, 3)));
  must(
    planes.every((plane, k) => plane.every((x) => x < primes[k])),
    "a residue is below its prime",
  );
  return planes;
}

export const blockRows = (d, blocks) =>
  range(blocks).map((k) => {
    const start = Math.floor((k * d) / blocks);
    return range(Math.floor(((k + 1) * d) / blocks) - start, start);
  });

// By pair of row blocks, with one that is kept: [a, b, [[row, column], ...]].
export function entries(d, blocks, kept) {
  const rows = blockRows(d, blocks);
  const pairs = range(blocks).flatMap((a) => range(blocks - a, a).map((b) => [a, b]));
  const places = (a, b) => rows[a].flatMap((i) => rows[b].filter((j) => i <= j).map((j) => [i, j]));
  return pairs.filter(([a, b]) => kept.includes(a) || kept.includes(b)).map(([a, b]) => [a, b, places(a, b)]);
}

// The rows of the blocks that are kept, times e (d x outputs, row by row), on one plane.
export function rowsTimes(plane, e, { d, blocks, kept, outputs, p }) {
  const matrix = new Float64Array(d * d);
  const places = entries(d, blocks, kept).flatMap(([, , found]) => found);
  places.forEach(([i, j], at) => (matrix[i * d + j] = matrix[j * d + i] = plane[at]));
  const entry = (i, c) => {
    let sum = 0;
    for (let j = 0; j < d; j += 1) {
      sum += matrix[i * d + j] * e[j * outputs + c];
      if (j % 31 === 30) sum %= p; // 31 products below 2^48 and a residue stay below 2^53
    }
    return sum % p;
  };
  return kept.flatMap((k) => blockRows(d, blocks)[k]).flatMap((i) => range(outputs).map((c) => entry(i, c)));
}

// -- fixed point: fractions are [numerator, denominator] of BigInts

const two = (k) => (k >= 0 ? [1n << BigInt(k), 1n] : [1n, 1n << BigInt(-k)]);
const times = ([a, b], [c, d]) => [a * c, b * d];
const over = ([a, b], [c, d]) => [a * d, b * c];
const whole = (n) => [BigInt(n), 1n];
const ceil = ([a, b]) => (a + b - 1n) / b;

export function fraction(x) {
  let bits = 0;
  for (; !Number.isInteger(x); x *= 2) bits += 1;
  return times(whole(x), two(-bits));
}

export function floorLog2([a, b]) {
  const k = a.toString(2).length - b.toString(2).length;
  const [c, d] = two(k);
  return c * b <= a * d ? k : k - 1;
}

// The nearest integer of 2^-bits, halves to the even one: exact, as long as x 2^bits is below 2^53.
export function onGrid(x, bits) {
  const scaled = x * 2 ** bits;
  const low = Math.floor(scaled);
  const rest = scaled - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low + 0;
}

export function scales({ features, labels, samples, perDevice, d, owners, primes }) {
  const [x, y, m] = [fraction(features), fraction(labels), whole(samples)];
  const bitLength = perDevice > 1 ? (perDevice - 1).toString(2).length : 0;
  const significant = Math.min(20, Math.floor((53 - bitLength) / 2));
  const [featureBits, labelBits] = [x, y].map((bound) => significant - 1 - floorLog2(bound));
  const eighth = [product(primes), 8n];
  const norm = over(times(whole(Math.floor(Math.sqrt(d))), y), x);
  const natural = floorLog2(over(eighth, times(times(m, times(x, x)), norm)));
  const gramBits = Math.min(Math.ceil(natural / 2), 2 * featureBits);
  const constantBits = Math.min(
    floorLog2(over(over(eighth, times(m, times(x, y))), whole(2))),
    featureBits + labelBits,
  );
  const [gx, gy] = [ceil(times(x, two(featureBits))), ceil(times(y, two(labelBits)))];
  const gramLimit = ceil(times(whole(BigInt(samples) * gx * gx), two(gramBits - 2 * featureBits))) + BigInt(owners);
  const shift = constantBits - featureBits - labelBits;
  const crossLimit = ceil(times(whole(BigInt(samples) * gx * gy), two(shift))) + BigInt(owners);
  return { featureBits, labelBits, gramBits, constantBits, limit: product(primes) / 8n, gramLimit, crossLimit };
}

// A device's X'X (a triangle), and its constant part: -X'Y row by row, then its number of rows.
export function statistics(X, Y, s) {
  const [x, y] = [
    [X, s.featureBits],
    [Y, s.labelBits],
  ].map(([rows, bits]) => rows.map((row) => row.map((v) => onGrid(v, bits))));
  const [d, outputs] = [X[0].length, Y[0].length];
  const gram = range(d).flatMap((i) => range(d - i, i).map((j) => x.reduce((sum, row) => sum + row[i] * row[j], 0)));
  const cross = range(d).flatMap((i) =>
    range(outputs).map((c) => x.reduce((sum, row, at) => sum + row[i] * y[at][c], 0)),
  );
  const shift = s.constantBits - s.featureBits - s.labelBits;
  return [
    gram.map((v) => onGrid(v, s.gramBits - 2 * s.featureBits)),
    [...cross.map((v) => -onGrid(v, shift)), X.length],
  ];
}

// -- secrets

export const sha256 = (...parts) =>
  parts.reduce((hash, part) => hash.update(part), crypto.createHash("sha256")).digest();
export const derive = (secret, salt, info) => Buffer.from(crypto.hkdfSync("sha256", secret, salt, info, 32));

export function pad(seed, label, count, primes, pair = [0, 0]) {
  return primes.map((p, k) => residues(derive(seed, "", `codedfl pad v2|${label}|${k}`), count, p, pair));
}

function residues(key, count, p, pair) {
  const found = [];
  for (let segment = 0; found.length < count; segment += 1) {
    const nonce = Buffer.alloc(16);
    [segment, ...pair].forEach((number, i) => nonce.writeUInt32LE(number, 4 + 4 * i));
    const stream = crypto.createCipheriv("chacha20", key, nonce);
    const wanted = Math.min(count, (segment + 1) * SEGMENT);
    while (found.length < wanted) {
      const bytes = stream.update(Buffer.alloc(3 * (wanted - found.length)));
      for (let at = 0; at < bytes.length; at += 3) {
        const candidate = bytes.readUIntLE(at, 3);
        if (candidate < p) found.push(candidate);
      }
    }
  }
  return found;
}

const DER = { x25519: "6e", ed25519: "70" };
const privateKey = (kind, raw) =>
  crypto.createPrivateKey({
    key: Buffer.concat([Buffer.from(`302e020100300506032b65${DER[kind]}04220420`, "hex"), raw]),
    format: "der",
    type: "pkcs8",
  });

function publicKey(kind, raw) {
  must(raw.length === 32, "a public key has 32 bytes");
  return crypto.createPublicKey({
    key: Buffer.concat([Buffer.from(`302a300506032b65${DER[kind]}032100`, "hex"), raw]),
    format: "der",
    type: "spki",
  });
}

const publicOf = (key) => crypto.createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32);
export const runPublic = (secret) => publicOf(privateKey("x25519", secret));

export function identityOf(secret) {
  const key = privateKey("ed25519", derive(secret, "", "codedfl v2|identity ed25519"));
  return { public: publicOf(key), sign: (message) => crypto.sign(null, message, key) };
}

export function verify(identity, message, signature) {
  must(crypto.verify(null, message, publicKey("ed25519", identity), signature), "a signature is its author's");
}

export const exchange = (secret, other) =>
  crypto.diffieHellman({ privateKey: privateKey("x25519", secret), publicKey: publicKey("x25519", other) });
const sealKey = (both, fresh, sender, receiver) =>
  derive(both, fresh, Buffer.concat([Buffer.from("codedfl v2|seal|"), sender, receiver]));

function chacha(key, nonce, context, data, opens = false) {
  const cipher = crypto[opens ? "createDecipheriv" : "createCipheriv"]("chacha20-poly1305", key, nonce, {
    authTagLength: 16,
  });
  cipher.setAAD(context);
  if (!opens) return Buffer.concat([cipher.update(data), cipher.final(), cipher.getAuthTag()]);
  cipher.setAuthTag(data.subarray(-16));
  return Buffer.concat([cipher.update(data.subarray(0, -16)), cipher.final()]);
}

export function seal(sender, receiver, context, plaintext, fresh) {
  const both = Buffer.concat([exchange(fresh, receiver), exchange(sender, receiver)]);
  const key = sealKey(both, runPublic(fresh), runPublic(sender), receiver);
  return Buffer.concat([runPublic(fresh), chacha(key, Buffer.alloc(12), context, plaintext)]);
}

export function openSealed(receiver, sender, context, sealed) {
  must(sealed.length >= 48, "an envelope has a fresh key and a tag");
  try {
    const fresh = sealed.subarray(0, 32);
    const both = Buffer.concat([exchange(receiver, fresh), exchange(receiver, sender)]);
    return chacha(
      sealKey(both, fresh, sender, runPublic(receiver)),
      Buffer.alloc(12),
      context,
      sealed.subarray(32),
      true,
    );
  } catch {
    throw new Refusal("an envelope is its sender's, for this receiver and context");
  }
}

export function encryptBulk(key, context, plaintext) {
  const count = Math.max(1, Math.ceil(plaintext.length / CHUNK));
  const nonce = (i) => Buffer.from([i === count - 1, 0, 0, 0, 0, 0, 0, 0, i >>> 24, i >>> 16, i >>> 8, i]);
  return Buffer.concat(
    range(count).map((i) => chacha(key, nonce(i), context, plaintext.subarray(i * CHUNK, (i + 1) * CHUNK))),
  );
}

export const commitment = (seed, agreement, owner, purpose) =>
  sha256("codedfl commitment v3|", agreement, purpose, "|", owner, "|", seed);

// -- messages

const TYPES = {
  s: (v) => typeof v === "string",
  b: Buffer.isBuffer,
  i: Number.isSafeInteger,
  l: Array.isArray,
  "?": () => true,
};
const LIMITS = { maxMapLength: 0, maxExtLength: 0, maxArrayLength: 2 ** 19 };
const buffers = (v) => (v instanceof Uint8Array ? Buffer.from(v) : Array.isArray(v) ? v.map(buffers) : v);

export const packed = (...fields) => Buffer.from(encode(fields));

// The list if it has exactly these types: s text, b bytes, i whole number, l list.
export function typed(list, types) {
  must(Array.isArray(list) && list.length === types.length, `a list has ${types.length} fields`);
  must(
    list.every((value, i) => TYPES[types[i]](value)),
    `fields have the types ${types}`,
  );
  return list;
}

export function unpacked(data, types = "") {
  let found;
  try {
    found = buffers(decode(data, LIMITS));
  } catch {
    throw new Refusal("msgpack is well-formed");
  }
  must(Array.isArray(found), "every part of a message is a list");
  return types ? typed(found, types) : found;
}

const FIELDS = ["kind", "run", "agreement", "sender", "receiver", "body", "attachment", "signature"];
const EMPTY = Buffer.alloc(0);

export const message = (
  kind,
  run,
  agreement,
  sender,
  receiver,
  body = EMPTY,
  attachment = EMPTY,
  signature = EMPTY,
) => ({
  kind,
  run,
  agreement,
  sender,
  receiver,
  body,
  attachment,
  signature,
});
export const context = (m) => packed("codedfl", VERSION, ...FIELDS.slice(0, 5).map((field) => m[field]));
export const encoded = (m) => packed("codedfl", VERSION, ...FIELDS.map((field) => m[field]));
const signedPart = (m) => Buffer.concat([context(m), sha256(m.body), sha256(m.attachment)]);
export const signed = (m, identity) => ({ ...m, signature: identity.sign(signedPart(m)) });
export const checkSigned = (m, identity) => verify(identity, signedPart(m), m.signature);

export function decoded(data, bulk = EMPTY) {
  const [magic, version, ...fields] = unpacked(data, "sisbbssbbb");
  must(magic === "codedfl" && version === VERSION, "a message is of this protocol and version");
  must(!(bulk.length && fields[6].length), "a message has one attachment");
  return message(...fields.slice(0, 6), bulk.length ? bulk : fields[6], fields[7]);
}

export const joinStatement = (run, invited, name, runKey) => packed("codedfl join v3", run, invited, name, runKey);
export const roleKeyStatement = (agreed, role, key) =>
  packed("codedfl role key v1", agreed.run, agreed.hash, role, key);
export const commitmentStatement = (pairs, agreement, owner) =>
  packed("codedfl commitments v4", agreement, owner, pairs);
export const listDigest = (owners) => sha256("codedfl owners v3|", owners);
export const listStatement = (agreed, owners) =>
  packed("codedfl owners signed v3", agreed.run, agreed.hash, listDigest(owners));

export function committed(seeds, agreement, owner, identity) {
  const pairs = seeds.map(([purpose, seed]) => [purpose, commitment(seed, agreement, owner, purpose)]);
  return [pairs, identity.sign(commitmentStatement(pairs, agreement, owner))];
}

// -- what a run is

export function readParameters(data) {
  const types = "siii??iiii?i?ibiib?";
  const f = unpacked(data, types);
  must(
    f[8] === -1 && f[9] === -1 && f[10] === true && f[11] === 1 && f[12] === false && f[18] === false,
    "parameters of this device",
  );
  const p = {
    scheme: f[0],
    d: f[2],
    outputs: f[3],
    features: f[4],
    labels: f[5],
    samples: f[6],
    perDevice: f[7],
    epochs: f[13],
    colluders: f[15],
    owners: f[16],
  };
  return { ...p, totalLimit: BigInt(`0x${f[17].toString("hex")}`) };
}

export function seated(members, run) {
  const lot = sha256("codedfl seats v3|", run, ...members.map((m) => m.runKey).sort(Buffer.compare));
  const draw = (m) => sha256(lot, m.runKey);
  return [...members].sort((a, b) => Buffer.compare(draw(a), draw(b)));
}

export function readAgreement(data) {
  const [run, invited, rows, theta, roles, helpers, blocks] = unpacked(data, "bblblll");
  const members = rows.map((row) => {
    const [name, identity, runKey, signature] = typed(row, "sbbb");
    return { name, identity, runKey, signature };
  });
  const p = readParameters(unpacked(invited, "bbb")[2]);
  const names = members.map((m) => m.name);
  must(theta.length === 0, "the initial model is zero");
  const keys = new Set(members.map((m) => m.identity.toString("hex")));
  must(
    new Set(names).size === names.length && keys.size === names.length,
    "each device is there once, with a key of its own",
  );
  must(
    seated(members, run).every((m, i) => m === members[i]),
    "seats are those that the run keys draw",
  );
  must([...roles, ...helpers, ...blocks].every(Number.isSafeInteger), "roles, helpers and blocks are whole numbers");
  must(
    helpers.every((i, at) => i >= 0 && i < names.length && !(i <= helpers[at - 1])),
    "helpers are members",
  );
  must([0, names.length].includes(roles.length), "everybody has a role, or -1");
  const nBlocks = Math.max(0, ...blocks) + 1;
  must(
    !blocks.length || (blocks.length === roles.length && nBlocks > 1 && nBlocks <= p.d),
    "a block has rows, and there are others",
  );
  for (const role of roles.length ? range(p.colluders + 1) : [])
    for (const block of range(nBlocks))
      must(
        roles.some((one, i) => one === role && (!blocks.length || blocks[i] === block)),
        "there is a holder for every block of each role",
      );
  must(
    roles.every((role) => role >= -1 && role <= p.colluders),
    "there are z + 1 roles",
  );
  const owners = range(names.length).filter((i) => !helpers.includes(i));
  const divisor = p.totalLimit ? 1 : p.owners || owners.length;
  const primes = primesFor(divisor, p.totalLimit && 8n * p.totalLimit > product(primesFor(1)) ? 3 : 2);
  return {
    run,
    invited,
    members,
    names,
    roles,
    blocks,
    nBlocks,
    owners,
    p,
    primes,
    hash: sha256("codedfl agreement v3|", data),
  };
}

export function keptBlocks(agreed, seat) {
  const block = agreed.blocks.length ? agreed.blocks[seat] : 0;
  return block < 0 ? range(agreed.nBlocks) : [block];
}

// Numbers of each block of rows in the constant part; the row count, where one is summed, goes with the last.
export const constantLengths = (agreed) =>
  blockRows(agreed.p.d, agreed.nBlocks).map(
    (rows, k) => rows.length * agreed.p.outputs + (k === agreed.nBlocks - 1 && !agreed.p.totalLimit ? 1 : 0),
  );

// What a seed expands to in these blocks of rows: of X'X the pairs that they are in, and of the constant part.
export function pads(seed, agreed, kept) {
  const { p, nBlocks, primes } = agreed;
  const lengths = constantLengths(agreed);
  const gram = entries(p.d, nBlocks, kept).map(([a, b, places]) => pad(seed, "gram", places.length, primes, [a, b]));
  const constant = kept.map((k) => pad(seed, "constant", lengths[k], primes, [k, k]));
  return [joined(gram, primes), joined(constant, primes)];
}
