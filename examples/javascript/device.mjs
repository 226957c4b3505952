/** A device: a function from requests to replies. "A device" in docs/protocol.md. */

import crypto from 'node:crypto';

import { add, fromBytes, numbersOf, product, spans, tileRows, toBytes } from './numbers.mjs';
import * as secrets from './secrets.mjs';
import { derive, isSigned, keyedHash, labelOf, pack, padKey, publicOf, sha256, shared, sign } from './secrets.mjs';
import { checkEnrolment, checkList, checkRoleKey } from './study.mjs';
import { decode, encode, ENTRIES, must, readRequest, refuse, Refusal } from './wire.mjs';

const LONGEST = 60 * 24 * 3600;

export class Device {
  /** `terms` of `readTerms`; `now` in seconds since 1970, `random` draws roots. */
  constructor(terms, memory, { now = () => Date.now() / 1000, random = crypto.randomBytes } = {}) {
    Object.assign(this, terms, { memory, now, random, contents: new Map() });
  }

  /** The reply to any bytes at all. Its memory is on the disk before the reply is. */
  reply(request) {
    const found = this.#found(request);
    this.memory.save();
    return encode(found);
  }

  /** Delete the root when its time is up. */
  expire() {
    const [number, root, notAfter] = this.memory.generation;
    if (root.length && this.now() >= notAfter) this.memory.generation = [number, Buffer.alloc(0), 0n];
    this.memory.save();
  }

  #found(request) {
    const asked = sha256(request);
    let enrolment = null;
    try {
      const [{ kind, common: data, signature }, common, own] = readRequest(request);
      must(common.study.equals(this.study.digest), 'study');
      must(isSigned(this.study.server, signature, 'request', kind, sha256(data)), 'signature');
      let body = Buffer.alloc(0);
      if (kind === 'close') {
        this.#close(common);
      } else {
        const keys = this.#keys(common, kind);
        enrolment = keys.enrolment;
        const missing = this.needs(common.ask).find((digest) => !this.contents.has(digest));
        if (missing) refuse(missing, 'missing');
        const plain = encode(HANDLERS[kind](this, keys, common, own));
        body = secrets.sealReply(keys.scope, keys.root, keys.a, common.server, asked, plain);
      }
      return { kind: 'ok', request: asked, enrolment, code: '', body };
    } catch (no) {
      if (!(no instanceof Refusal)) throw no;
      return { kind: no.kind, request: asked, enrolment, code: no.code, body: Buffer.alloc(0) };
    }
  }

  /** Those of the generation that is asked for; a request to enrol draws the root of a newer one. */
  #keys({ study, generation, not_after: end }, kind) {
    this.expire();
    if (generation > this.memory.generation[0]) {
      must(kind === 'enrol' && this.now() < end && end <= this.now() + LONGEST, 'generation');
      this.memory.generation = [generation, this.random(32), end];
    }
    const [number, root, notAfter] = this.memory.generation;
    must(number === generation && root.length && (end ?? notAfter) === notAfter, 'generation');
    const scope = [study, generation];
    const a = derive(root, 'device key', ...scope);
    const A = publicOf(a);
    const signature = sign(this.secret, 'enrolment', ...scope, notAfter, A);
    return { scope, root, a, A, enrolment: [this.name, A, notAfter, signature] };
  }

  #close({ generation, record }) {
    if (generation < this.memory.generation[0]) return;
    this.memory.record(generation, record);
    this.memory.generation = [generation, Buffer.alloc(0), 0n];
  }

  /** Signed only where the layout is certified. */
  signedNumbers(layout, words, what, ...parts) {
    const numbers = toBytes(layout.bits, words);
    const signature = layout.certified ? sign(this.secret, what, ...parts, sha256(numbers)) : Buffer.alloc(0);
    return { numbers, signature };
  }
}

const HANDLERS = { enrol: () => ({}), draw, put, upload, answer, certify };

/** The key of this device's role: B for everybody, b for other holders of the role. */
function draw(device, { scope, root, a, A }, _, { members }) {
  const role = device.study.role.get(device.name);
  must(role !== undefined, 'role');
  const b = derive(root, 'role key', ...scope, role);
  const B = publicOf(b);
  const sealed = new Map();
  for (const member of members) {
    const [name, theirs] = member;
    must(device.study.role.get(name) === role, 'role');
    checkEnrolment(device.study, scope, member, device.now());
    if (name !== device.name) sealed.set(name, secrets.sealRoleKey(b, scope, shared(a, theirs), role, A, theirs, B));
  }
  return { public: B, signature: sign(device.secret, 'role key', ...scope, role, B), sealed };
}

/** Keep a content by its digest, and of those before it the newest. */
function put(device, _, __, { content }) {
  must(content.length <= 2 ** 22, 'request');
  device.contents.set(sha256(content).toString('hex'), content);
  device.contents = new Map([...device.contents].slice(-8));
  return {};
}

/** The words of the statistic, plus one pad for each role. */
function upload(device, { scope, root, a, A }, { ask }, { role_keys: roleKeys }) {
  const { study } = device;
  must(study.owners.has(device.name), 'role');
  const { layout, words, counted, arguments: most } = device.about(ask);
  must(roleKeys.length === study.colluders + 1, 'role');
  roleKeys.forEach((key, role) => checkRoleKey(study, scope, role, key));
  const label = labelOf(study.digest, ask);
  const plain = toBytes(layout.bits, words);
  const nonce = keyedHash(scope, root, 'nonce', label, plain);
  const pinned = derive(device.secret, 'pinned', label, sha256(plain));
  device.memory.pin(ask, pinned, counted, most);
  const sum = words.slice();
  const publics = roleKeys.map(([, , B]) => B);
  publics.forEach((B, role) => {
    const key = padKey(shared(a, B), role, [study.digest, device.name, A], B, label, nonce);
    add(sum, secrets.pad(key, layout.bits, 0, sum.length));
  });
  return { nonce, ...device.signedNumbers(layout, sum, 'upload', label, A, ...publics, nonce) };
}

/** b: from the root if this device drew it, else what its drawer sealed to this device. */
function openedRoleKey(device, { scope, root, a, A }, role, { role_key: key, sealed }) {
  checkRoleKey(device.study, scope, role, key);
  const [drawer, drawerA, B] = key;
  const own = derive(root, 'role key', ...scope, role);
  if (drawer === device.name && publicOf(own).equals(B)) return own;
  const b = secrets.openRoleKey(sealed, scope, shared(a, drawerA), role, drawerA, A, B);
  must(b.length === 32 && publicOf(b).equals(B), 'role');
  return b;
}

/** The sum of the pads of a role over the owners of a list: of the vector, or rows of the matrix times e. */
function answer(device, keys, { ask, list, e: data }, own) {
  const { study } = device;
  const role = study.role.get(device.name);
  must(role !== undefined, 'role');
  const { layout, fixed } = device.about(ask);
  const label = labelOf(study.digest, ask);
  const B = own.role_key[2];
  const b = openedRoleKey(device, keys, role, own);
  if (!own.entries.length) refuse('list', 'missing');
  const pads = readList(device, keys, fixed, list, own.entries).map(([name, A, , , nonce]) =>
    padKey(shared(b, A), role, [study.digest, name, A], B, label, nonce),
  );
  const rows = own.rows.map(Number);
  const e = data.length ? readE(device, layout, label, data, rows) : null;
  const [vector, end] = spans(layout);
  const [first, last] = e ? [vector, end] : [0, vector];
  const sum = new BigUint64Array(last - first);
  pads.forEach((key) => add(sum, secrets.pad(key, layout.bits, first, last - first)));
  const found = e ? product(layout, sum, e, rows) : sum;
  return device.signedNumbers(layout, found, 'role sum', label, list, role, B);
}

/** A list of owners that may be summed over. */
function readList(device, { scope }, fixed, list, entries) {
  must(sha256(entries).equals(list), 'list');
  const found = decode(entries, ENTRIES, 'list');
  checkList(device.study, scope, fixed, found, device.now());
  return found;
}

/** Words of the layout, row by row. Each e is counted. */
function readE(device, { bits, size, columns, certified, room }, label, data, [first, last]) {
  must(size && !certified && data.length === (bits / 8) * size * columns, 'request');
  must(first < last && last <= tileRows(size), 'request');
  const e = fromBytes(bits, data).map((word) => BigInt.asIntN(bits, word));
  const sums = Array(columns).fill(0n);
  e.forEach((word, i) => {
    const value = BigInt.asIntN(64, word);
    sums[i % columns] += value < 0n ? -value : value;
  });
  must(sums.every((sum) => sum <= room), 'request');
  device.memory.count(sha256(pack(label, data)), device.directions);
  return e;
}

/** The total, from what owners and at least z + 1 holders of each role have signed. */
function certify(device, keys, { ask, list }, { entries: data, uploads, sums }) {
  const { study } = device;
  const { layout, fixed } = device.about(ask);
  const label = labelOf(study.digest, ask);
  const entries = readList(device, keys, fixed, list, data);
  must(layout.certified && !layout.size, 'request');
  must(uploads.length === entries.length && sums.length === study.colluders + 1, 'list');
  const total = new BigUint64Array(spans(layout)[1]);
  const count = (numbers, sign_) => {
    const words = fromBytes(layout.bits, numbers);
    must(words.length === total.length, 'request');
    add(total, words, sign_);
  };
  const publics = sums.map(([[, , B]]) => B);
  entries.forEach(([name, A, , , nonce], i) => {
    const [numbers, signature] = uploads[i];
    const text = ['upload', label, A, ...publics, nonce, sha256(numbers)];
    must(isSigned(study.key.get(name), signature, ...text), 'list');
    count(numbers, 1n);
  });
  sums.forEach(([key, numbers, signatures], role) => {
    checkRoleKey(study, keys.scope, role, key);
    must(new Set(signatures.map(([name]) => name)).size > study.colluders, 'role');
    const text = ['role sum', label, list, role, key[2], sha256(numbers)];
    const holds = ([name, one]) => study.role.get(name) === role && isSigned(study.key.get(name), one, ...text);
    must(signatures.every(holds), 'role');
    count(numbers, -1n);
  });
  must(numbersOf(layout, total).every((v) => (v < 0n ? -v : v) <= layout.limit), 'list');
  return device.signedNumbers(layout, total, 'total', label, list);
}
