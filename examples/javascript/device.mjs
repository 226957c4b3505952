// A device: a function of its study, rows, memory and the request. The page's "A device".

import { ENTRIES, Refused, decode, encode, must, readRequest } from './msgpack.mjs';
import { add, fromBytes, isWithinLimit, pad, product, spans, tileRows, toBytes } from './numbers.mjs';
import {
  derive, isSigned, keyedHash, labelOf, openRoleKey, pack, padKey, publicOf, same, sealReply, sealRoleKey, sha256, shared,
  sign,
} from './secrets.mjs';
import { checkEnrolment, checkList, checkRoleKey } from './study.mjs';

const MOST_SECONDS = 60n * 24n * 3600n;
const KEPT = 4; // sums of pads
const [CONTENTS, MOST_CONTENT] = [8, 2 ** 22];

export class Device {
  /**
   * terms: what follows from the study, see terms.mjs. memory: see memory.mjs.
   * now: seconds since 1970, a whole number. random: draws roots, and nothing else.
   */
  constructor(terms, memory, now, random) {
    const { name, secret, study } = terms;
    Object.assign(this, { name, secret, study, terms, memory, now, random });
    this.kept = new Map(); // sums of pads, by what they are of: a cache
    this.contents = new Map(); // by digest: a cache, too
    this.handlers = {
      enrol: () => ({}),
      draw: (...of) => this.draw(...of),
      put: (...of) => this.put(...of),
      upload: (...of) => this.upload(...of),
      answer: (...of) => this.answer(...of),
      certify: (...of) => this.certify(...of),
    };
  }

  /** The reply to any bytes at all. */
  reply(data) {
    const request = sha256(data);
    let [keys, kind, code, body] = [null, 'ok', '', Buffer.alloc(0)];
    try {
      const [found, common, own] = readRequest(data);
      must(same(common.study, this.study.digest), 'study');
      must(isSigned(this.study.server, found.signature, 'request', found.kind, sha256(found.common)), 'signature');
      if (found.kind === 'close') {
        this.close(common);
      } else {
        keys = this.keysOf(common, found.kind);
        for (const one of common.ask ? this.terms.needs(common.ask) : []) {
          if (!this.contents.has(one)) throw new Refused(one, 'missing');
        }
        const plain = encode(this.handlers[found.kind](keys, common, own));
        body = sealReply(keys.scope, keys.root, keys.a, common.server, request, plain);
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      [kind, code] = [error.kind, error.code];
    }
    return encode({ kind, request, enrolment: keys?.enrolment ?? null, code, body });
  }

  // -- generations

  keysOf(common, kind) {
    let { number, root, notAfter } = this.memory.generation;
    const now = this.now();
    if (root.length && now >= notAfter) {
      root = Buffer.alloc(0);
      this.memory.keep(number, root, 0n);
    }
    if (common.generation > number) {
      must(kind === 'enrol' && now < common.not_after && common.not_after <= now + MOST_SECONDS, 'generation');
      [number, root, notAfter] = [common.generation, this.random(32), common.not_after];
      this.kept.clear();
      this.memory.keep(number, root, notAfter);
    }
    must(number === common.generation && root.length, 'generation');
    must(kind !== 'enrol' || common.not_after === notAfter, 'generation');
    const scope = [this.study.digest, number];
    const a = derive(root, 'device key', ...scope);
    const A = publicOf(a);
    return { scope, root, a, A, enrolment: [this.name, A, notAfter, sign(this.secret, 'enrolment', ...scope, notAfter, A)] };
  }

  close(common) {
    if (common.generation < this.memory.generation.number) return;
    this.memory.closed(common.generation, common.record);
    this.kept.clear();
  }

  // -- a role's key

  draw({ scope, root, a }, _, own) {
    const role = this.study.role.get(this.name);
    must(role !== undefined, 'role');
    const b = derive(root, 'role key', ...scope, role);
    const sealed = new Map();
    for (const enrolment of own.members) {
      const [name, enrolled] = enrolment;
      must(this.study.role.get(name) === role, 'role');
      checkEnrolment(this.study, scope, enrolment, this.now());
      if (name !== this.name) sealed.set(name, sealRoleKey(scope, a, role, enrolled, b));
    }
    const B = publicOf(b);
    return { public: B, signature: sign(this.secret, 'role key', ...scope, role, B), sealed };
  }

  openedRoleKey({ scope, root, a }, role, own) {
    checkRoleKey(this.study, scope, role, own.role_key);
    const [drawer, drawerPublic, B] = own.role_key;
    let b = derive(root, 'role key', ...scope, role);
    if (drawer !== this.name || !same(publicOf(b), B)) b = openRoleKey(scope, a, role, drawerPublic, B, own.sealed);
    must(b.length === 32 && same(publicOf(b), B), 'role');
    return b;
  }

  // -- what asks need

  put(_, __, { content }) {
    must(content.length <= MOST_CONTENT, 'request');
    this.contents.set(sha256(content).toString('hex'), content);
    if (this.contents.size > CONTENTS) this.contents.delete(this.contents.keys().next().value);
    return {};
  }

  // -- an owner

  upload({ scope, root, a, A }, { ask }, own) {
    must(this.study.owners.has(this.name), 'role');
    const { layout, plain, counted, most } = this.terms.about(ask);
    const label = labelOf(this.study.digest, ask);
    must(own.role_keys.length === this.study.colluders + 1, 'role');
    own.role_keys.forEach((key, role) => checkRoleKey(this.study, scope, role, key));
    const nonce = keyedHash(scope, root, 'nonce', label, plain);
    this.memory.contribute(ask, derive(this.secret, 'pinned', label, sha256(plain)), counted, most);
    const words = fromBytes(layout.bits, plain);
    const publics = own.role_keys.map(([, , B]) => B);
    publics.forEach((B, role) => {
      const key = padKey(shared(a, B), role, [this.study.digest, this.name, A], B, label, nonce);
      add(words, pad(key, layout.bits, 0, words.length));
    });
    return { nonce, ...this.signed(layout, words, 'upload', label, A, ...publics, nonce) };
  }

  signed(layout, words, what, ...parts) {
    const numbers = toBytes(layout.bits, words);
    const signature = layout.certified ? sign(this.secret, what, ...parts, sha256(numbers)) : Buffer.alloc(0);
    return { numbers, signature };
  }

  // -- a holder

  answer(keys, common, own) {
    const role = this.study.role.get(this.name);
    must(role !== undefined, 'role');
    const { layout } = this.terms.about(common.ask);
    const label = labelOf(this.study.digest, common.ask);
    const b = this.openedRoleKey(keys, role, own);
    const B = own.role_key[2];
    const pads = this.padsOf(keys, common, own, role, b, label);
    const [ofVector, all] = spans(layout);
    const e = common.e.length ? this.readE(layout, label, common.e, own.rows) : null;
    const sum = this.sumOf(pads, layout, e ? ofVector : 0, e ? all : ofVector);
    const words = e ? product(layout, sum, e, ...own.rows.map(Number)) : sum;
    return this.signed(layout, words, 'role sum', label, common.list, role, B);
  }

  /** The keys of the pads of a list, and the sums made of them: kept, so that the list need not come again. */
  padsOf({ scope }, common, own, role, b, label) {
    const place = pack(label, common.list, own.role_key[2]).toString('hex');
    const entries = own.entries.length ? this.readList(scope, common, own) : null;
    if (!this.kept.has(place)) {
      if (!entries) throw new Refused('list', 'missing');
      const keys = entries.map(([name, enrolled, , , nonce]) => padKey(
        shared(b, enrolled), role, [this.study.digest, name, enrolled], own.role_key[2], label, nonce));
      if (this.kept.size >= KEPT) this.kept.delete(this.kept.keys().next().value);
      this.kept.set(place, { keys, sums: new Map() });
    }
    return this.kept.get(place);
  }

  sumOf({ keys, sums }, { bits }, first, last) {
    if (!sums.has(first)) {
      const total = new BigUint64Array(last - first);
      for (const key of keys) add(total, pad(key, bits, first, last));
      sums.set(first, total);
    }
    return sums.get(first);
  }

  readList(scope, common, own) {
    must(same(sha256(own.entries), common.list), 'list');
    const entries = decode(own.entries, ENTRIES, 'list');
    checkList(this.study, scope, this.terms.about(common.ask).fixed, entries, this.now());
    return entries;
  }

  readE(layout, label, data, [first, last]) {
    const { size, columns, certified, room, bits } = layout;
    must(size && !certified && data.length === (bits / 8) * size * columns, 'request');
    must(first < last && last <= tileRows(layout), 'request');
    const e = Array.from(fromBytes(bits, data), (word) => BigInt.asIntN(bits, word));
    for (let c = 0; c < columns; c++) {
      const sizes = e.filter((_, at) => at % columns === c).map((v) => (v < 0n ? -v : v));
      must(sizes.reduce((sum, v) => sum + v, 0n) <= BigInt(room), 'request');
    }
    this.memory.ask(sha256(pack(label, data)), this.terms.directions);
    return e;
  }

  // -- a total that others can believe

  certify({ scope }, common, own) {
    const { study } = this;
    const label = labelOf(study.digest, common.ask);
    const { layout } = this.terms.about(common.ask);
    const entries = this.readList(scope, common, own);
    must(layout.certified && !layout.size, 'request');
    must(own.uploads.length === entries.length && own.sums.length === study.colluders + 1, 'list');
    const publics = own.sums.map(([[, , B]]) => B);
    const total = new BigUint64Array(spans(layout)[1]);
    const take = (numbers, sign) => {
      must(numbers.length === (total.length * layout.bits) / 8, 'request');
      add(total, fromBytes(layout.bits, numbers), sign);
    };
    entries.forEach(([name, enrolled, , , nonce], i) => {
      const [numbers, signature] = own.uploads[i];
      const parts = ['upload', label, enrolled, ...publics, nonce, sha256(numbers)];
      must(isSigned(study.key.get(name), signature, ...parts), 'list');
      take(numbers, 1n);
    });
    own.sums.forEach(([key, numbers, signatures], role) => {
      checkRoleKey(study, scope, role, key);
      const by = new Set(signatures.map(([name]) => name).filter((name) => study.role.get(name) === role));
      must(by.size > study.colluders, 'role');
      const parts = ['role sum', label, common.list, role, key[2], sha256(numbers)];
      must(signatures.every(([name, one]) => by.has(name) && isSigned(study.key.get(name), one, ...parts)), 'role');
      take(numbers, -1n);
    });
    must(isWithinLimit(layout, total), 'list');
    return this.signed(layout, total, 'total', label, common.list);
  }
}
