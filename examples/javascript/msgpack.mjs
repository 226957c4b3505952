// MessagePack, as much of it as requests and replies have, and their shapes: the page's "Requests and replies".
//
// Whole numbers are BigInts here, byte strings Buffers, maps Maps (whose keys keep their order, whatever they are).

/** What this device does not reply to; `code` is all that it says of the reason. */
export class Refused extends Error {
  constructor(code, kind = 'refused') { super(code); this.code = code; this.kind = kind; }
}

export function must(holds, code) {
  if (!holds) throw new Refused(code);
}

const OTHER = Symbol('something that has no place in a message'); // a float, a boolean, an extension

const sized = (first, small, ...wider) => (length) => {
  if (length <= small) return Buffer.from([first + length]);
  const [code, bytes] = wider.find(([, width]) => length < 256 ** width);
  const head = Buffer.alloc(1 + bytes, code);
  head.writeUIntBE(length, 1, bytes);
  return head;
};
const HEADS = {
  number: sized(0, 127, [0xcc, 1], [0xcd, 2], [0xce, 4]),
  text: sized(0xa0, 31, [0xd9, 1], [0xda, 2], [0xdb, 4]),
  bytes: sized(0, -1, [0xc4, 1], [0xc5, 2], [0xc6, 4]),
  list: sized(0x90, 15, [0xdc, 2], [0xdd, 4]),
  map: sized(0x80, 15, [0xde, 2], [0xdf, 4]),
};

/** In as few bytes as it takes. Plain objects are maps, too. */
export function encode(value) {
  if (value === null) return Buffer.from([0xc0]);
  if (typeof value === 'bigint') {
    if (value < 2n ** 32n) return HEADS.number(Number(value));
    const found = Buffer.alloc(9, 0xcf);
    found.writeBigUInt64BE(value, 1);
    return found;
  }
  if (typeof value === 'string') return Buffer.concat([HEADS.text(Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([HEADS.bytes(value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([HEADS.list(value.length), ...value.map(encode)]);
  const fields = value instanceof Map ? [...value] : Object.entries(value);
  return Buffer.concat([HEADS.map(fields.length), ...fields.flat().map(encode)]);
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

class Reader {
  constructor(data) { this.data = data; this.at = 0; }

  take(count) {
    must(this.at + count <= this.data.length, 'request');
    this.at += count;
    return this.data.subarray(this.at - count, this.at);
  }

  uint(width) { return Number(this.take(width).readUIntBE(0, width)); }

  // Nothing is built from a length that is only declared: every item takes a byte at least.
  list(count, depth) {
    must(this.at + count <= this.data.length, 'request');
    return Array.from({ length: count }, () => this.value(depth + 1));
  }

  map(count, depth) {
    const found = new Map();
    const flat = this.list(2 * count, depth);
    for (let i = 0; i < flat.length; i += 2) found.set(flat[i], flat[i + 1]);
    return found;
  }

  text(count) { return UTF8.decode(this.take(count)); }

  value(depth) {
    must(depth < 32, 'request');
    const first = this.uint(1);
    if (first < 0x80) return BigInt(first);
    if (first < 0x90) return this.map(first & 15, depth);
    if (first < 0xa0) return this.list(first & 15, depth);
    if (first < 0xc0) return this.text(first & 31);
    if (first >= 0xe0) return BigInt(first - 256);
    const width = [1, 2, 4];
    switch (first) {
      case 0xc0: return null;
      case 0xc4: case 0xc5: case 0xc6: return this.take(this.uint(width[first - 0xc4]));
      case 0xcc: case 0xcd: case 0xce: return BigInt(this.uint(width[first - 0xcc]));
      case 0xcf: return this.take(8).readBigUInt64BE();
      case 0xd9: case 0xda: case 0xdb: return this.text(this.uint(width[first - 0xd9]));
      case 0xdc: case 0xdd: return this.list(this.uint(width[first - 0xdb]), depth);
      case 0xde: case 0xdf: return this.map(this.uint(width[first - 0xdd]), depth);
      default: return OTHER; // and what follows is left over
    }
  }
}

// -- shapes: an object is a map of exactly these keys, an array a list of exactly these, `listOf` a list of any number
// of one, a number so many bytes.

export const text = (found) => typeof found === 'string';
export const bytes = (found) => found instanceof Uint8Array;
export const whole = (found) => typeof found === 'bigint' && found >= 0n && found < 2n ** 63n;
export const listOf = (shape) => (found) => Array.isArray(found) && found.every((one) => fits(one, shape));

function fits(found, shape) {
  if (typeof shape === 'function') return shape(found);
  if (typeof shape === 'number') return bytes(found) && found.length === shape;
  if (Array.isArray(shape)) {
    return Array.isArray(found) && found.length === shape.length && shape.every((one, i) => fits(found[i], one));
  }
  const keys = Object.keys(shape);
  return found instanceof Map && found.size === keys.length
    && keys.every((key) => found.has(key) && fits(found.get(key), shape[key]));
}

/** As an object (a map) or an array; refused if it has another shape, or if anything is left over. */
export function decode(data, shape, code = 'request') {
  let found;
  const reader = new Reader(data);
  try { found = reader.value(0); } catch { throw new Refused(code); }
  must(reader.at === data.length && fits(found, shape), code);
  return found instanceof Map ? Object.fromEntries(found) : found;
}

const ENROLMENT = [text, 32, whole, 64]; // name, A, not_after, signature
const ROLE_KEY = [text, 32, 32, 64]; // drawer, its A, B, signature
export const ENTRIES = listOf([...ENROLMENT, 16]); // ..., nonce
const COMMON = { study: 32, generation: whole, server: 32 };
const LISTED = { ...COMMON, ask: bytes, list: 32 };
const ROLE_SUM = [ROLE_KEY, bytes, listOf([text, 64])];

const KINDS = {
  enrol: [{ ...COMMON, not_after: whole }, {}],
  draw: [COMMON, { members: listOf(ENROLMENT) }],
  put: [COMMON, { content: bytes }],
  upload: [{ ...COMMON, ask: bytes }, { role_keys: listOf(ROLE_KEY) }],
  answer: [{ ...LISTED, e: bytes }, { role_key: ROLE_KEY, sealed: bytes, rows: [whole, whole], entries: bytes }],
  certify: [LISTED, { entries: bytes, uploads: listOf([bytes, 64]), sums: listOf(ROLE_SUM) }],
  close: [{ ...COMMON, record: listOf([32, listOf(text)]) }, {}],
};

/** The request, and both of its parts. */
export function readRequest(data) {
  must(data.length <= 2 ** 26, 'request');
  const found = decode(data, { kind: text, common: bytes, own: bytes, signature: 64 });
  must(Object.hasOwn(KINDS, found.kind), 'request');
  const [common, own] = KINDS[found.kind];
  return [found, decode(found.common, common), decode(found.own, own)];
}
