/** MessagePack, and the shapes of requests: "Requests and replies" in docs/protocol.md. */

/** What is said of a request that is not replied to: a kind of reply, and a code. */
export class Refusal extends Error {
  constructor(code, kind = 'refused') {
    super(code);
    Object.assign(this, { code, kind });
  }
}

export function refuse(code, kind) {
  throw new Refusal(code, kind);
}

/** Go on only where something holds. */
export function must(holds, code) {
  if (!holds) refuse(code);
}

/** The shortest head of a size: one byte below `most`, else the first of `wider` (first byte, width) that holds it. */
function head(size, short, most, ...wider) {
  if (size < most) return Buffer.from([short + Number(size)]);
  const [first, width] = wider.find(([, one]) => size < 2n ** BigInt(8 * one));
  return Buffer.from([first, ...Buffer.from(BigInt(size).toString(16).padStart(2 * width, '0'), 'hex')]);
}

/** In as few bytes as it takes. A map is a Map or an object, whose keys travel in their order. */
export function encode(value) {
  if (value === null) return Buffer.from([0xc0]);
  if (typeof value === 'number' || typeof value === 'bigint') {
    return head(value, 0, 128, [0xcc, 1], [0xcd, 2], [0xce, 4], [0xcf, 8]);
  }
  if (typeof value === 'string') {
    const data = Buffer.from(value);
    return Buffer.concat([head(data.length, 0xa0, 32, [0xd9, 1], [0xda, 2], [0xdb, 4]), data]);
  }
  if (Buffer.isBuffer(value)) return Buffer.concat([head(value.length, 0, 0, [0xc4, 1], [0xc5, 2], [0xc6, 4]), value]);
  if (Array.isArray(value)) {
    return Buffer.concat([head(value.length, 0x90, 16, [0xdc, 2], [0xdd, 4]), ...value.map(encode)]);
  }
  const pairs = value instanceof Map ? [...value] : Object.entries(value);
  return Buffer.concat([head(pairs.length, 0x80, 16, [0xde, 2], [0xdf, 4]), ...pairs.flat().map(encode)]);
}

const LENGTHS = { 0xc4: 1, 0xc5: 2, 0xc6: 4, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4 };

/** Reads values one after the other. Whole numbers become BigInt, maps Map. */
class Reader {
  constructor(data) {
    this.left = data;
  }

  take(size) {
    must(size <= this.left.length, 'request');
    const found = this.left.subarray(0, size);
    this.left = this.left.subarray(size);
    return found;
  }

  text(size) {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.take(size));
  }

  list(size) {
    const found = [];
    while (found.length < size) found.push(this.value());
    return found;
  }

  map(size) {
    const found = new Map();
    for (let left = size; left > 0; left -= 1) found.set(this.value(), this.value());
    return found;
  }

  /** What no message has (floats, booleans, extensions) is refused at once. */
  value() {
    const first = this.take(1)[0];
    if (first < 0x80) return BigInt(first);
    if (first < 0x90) return this.map(first - 0x80);
    if (first < 0xa0) return this.list(first - 0x90);
    if (first < 0xc0) return this.text(first - 0xa0);
    if (first === 0xc0) return null;
    if (first >= 0xcc && first <= 0xd3) {
      const width = 2 ** (first & 3);
      const found = BigInt(`0x${this.take(width).toString('hex')}`);
      return first < 0xd0 ? found : BigInt.asIntN(8 * width, found);
    }
    must(first in LENGTHS, 'request');
    const size = this.take(LENGTHS[first]).readUIntBE(0, LENGTHS[first]);
    if (first <= 0xc6) return this.take(size);
    if (first <= 0xdb) return this.text(size);
    return first <= 0xdd ? this.list(size) : this.map(size);
  }
}

/** Refused if it has another shape, or if anything is left over. Maps with known keys become objects. */
export function decode(data, shape, code = 'request') {
  try {
    const reader = new Reader(data);
    const found = shape(reader.value());
    must(!reader.left.length, code);
    return found;
  } catch {
    return refuse(code);
  }
}

// A shape is a function that gives back what it was given, or refuses it.
const where = (holds) => (found) => (holds(found) ? found : refuse('request'));
export const int = where((found) => typeof found === 'bigint' && found >= 0n && found < 2n ** 63n);
export const text = where((found) => typeof found === 'string');
export const bytes = where((found) => Buffer.isBuffer(found));
const exactly = (size) => where((found) => Buffer.isBuffer(found) && found.length === size);
export const many = (shape) => (found) => (Array.isArray(found) ? found.map((one) => shape(one)) : refuse('request'));
export const list = (...shapes) => (found) =>
  Array.isArray(found) && found.length === shapes.length ? shapes.map((one, i) => one(found[i])) : refuse('request');
const map = (shapes) => (found) => {
  const names = Object.keys(shapes);
  must(found instanceof Map && found.size === names.length, 'request');
  return Object.fromEntries(names.map((name) => [name, shapes[name](found.get(name))]));
};

export const digest = exactly(32);
const [key, signature] = [exactly(32), exactly(64)];
const ENROLMENT = [text, key, int, signature]; // name, A, not_after, signature
export const ENTRIES = many(list(...ENROLMENT, exactly(16))); // ..., nonce of the upload that is meant
const ROLE_KEY = list(text, key, key, signature); // drawer, its A, B, signature
const ROLE_SUM = list(ROLE_KEY, bytes, many(list(text, signature)));
const COMMON = { study: digest, generation: int, server: key };
const LISTED = { ...COMMON, ask: bytes, list: digest };

// kind: what all receivers get, and what this one gets beside it
const KINDS = {
  enrol: [{ ...COMMON, not_after: int }, {}],
  draw: [COMMON, { members: many(list(...ENROLMENT)) }],
  put: [COMMON, { content: bytes }],
  upload: [{ ...COMMON, ask: bytes }, { role_keys: many(ROLE_KEY) }],
  answer: [{ ...LISTED, e: bytes }, { role_key: ROLE_KEY, sealed: bytes, rows: list(int, int), entries: bytes }],
  certify: [LISTED, { entries: bytes, uploads: many(list(bytes, signature)), sums: many(ROLE_SUM) }],
  close: [{ ...COMMON, record: many(list(digest, many(text))) }, {}],
};
const kindOf = where((found) => typeof found === 'string' && Object.hasOwn(KINDS, found));
const REQUEST = map({ kind: kindOf, common: bytes, own: bytes, signature });

/** The request, and both of its parts. */
export function readRequest(data) {
  must(data.length <= 2 ** 26, 'request');
  const found = decode(data, REQUEST);
  const [common, own] = KINDS[found.kind];
  return [found, decode(found.common, map(common)), decode(found.own, map(own))];
}
