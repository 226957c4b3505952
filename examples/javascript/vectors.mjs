// node vectors.mjs [FOLDER]: the page's test vectors that concern a device of role keys, and what it must refuse.

import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { NO_PART, NOTHING, receive } from './device.mjs';
import { Ledger, Runs } from './disk.mjs';
import { Letters } from './letters.mjs';
import { clientId, Line } from './line.mjs';
import * as wire from './messages.mjs';
import { entries, pack, primesFor, scales, statistics, toPlanes, zeros } from './numbers.mjs';
import { addPad, EMPTY, hex, identityOf, must, openSealed, publicOf, seal, sha256, sign } from './secrets.mjs';

const folder = process.argv[2] ?? '../../spec/vectors';
const raw = (text) => Buffer.from(text, 'hex');
const shake = (label, length = 32) => crypto.createHash('shake256', { outputLength: length }).update(label).digest();
const equal = (found, wanted, what) => must(JSON.stringify(found) === JSON.stringify(wanted), what);
const refuses = (call, what) => {
  try { call(); } catch { return; }
  throw new Error(`must be refused: ${what}`);
};

const PARTS = {
  packing({ primes, numbers, packed }) {
    equal(hex(pack(toPlanes(numbers.map(BigInt), primes))), packed, 'packed');
  },

  rounding({ bounds: [features, labels, rows, perDevice], owners, X, Y, ...wanted }) {
    const p = { features, labels, rows, perDevice, d: X[0].length, outputs: Y[0].length };
    const primes = primesFor(owners);
    const bits = scales(p, primes);
    equal([bits.features, bits.labels, bits.gram, bits.constant], wanted.fraction_bits, 'fraction bits');
    equal(Math.floor((primes[0] * primes[1]) / 8), wanted.limits[0], 'M/8'); // the other limits are the server's
    const [gram, constant] = statistics(p, bits, X, Y, entries(p.d, 1, [0])[0].places);
    equal(gram, wanted.gram, "X'X");
    equal(constant, wanted.constant, 'constant part');
  },

  row_blocks({ d, blocks, entries: wanted }) {
    const places = entries(d, blocks, [...Array(blocks).keys()]).flatMap((one) => one.places);
    equal(places.map((at) => [Math.floor(at / d), at % d]), wanted, 'entries');
  },

  pads({ seed, primes, label, count, pair, packed, sha256: digest }) {
    const planes = zeros(primes, count);
    addPad(planes, primes, 0, raw(seed), label, count, pair);
    equal(hex(packed ? pack(planes) : sha256(pack(planes))), packed ?? digest, 'pad');
  },

  sealing({ sender, receiver, fresh, context, plaintext, sealed }) {
    if (!sealed) return; // a bulk under a content key: coded-padded, and z = 0
    const [from, to, bound] = [sender, receiver, context].map(raw);
    const found = seal(from, publicOf(to), bound, raw(plaintext), raw(fresh));
    equal(hex(found), sealed, 'sealed');
    equal(hex(openSealed(to, publicOf(from), bound, found)), plaintext, 'opened');
    for (const at of [0, 40, found.length - 1]) {
      const damaged = Buffer.from(found);
      damaged[at] ^= 1;
      refuses(() => openSealed(to, publicOf(from), bound, damaged), 'a damaged envelope');
    }
    refuses(() => openSealed(to, publicOf(from), EMPTY, found), 'another context');
    refuses(() => seal(from, Buffer.alloc(32), bound, EMPTY, raw(fresh)), 'a key of small order');
  },

  agreements({ run, parameters, seeds, roles, helpers, blocks, ...wanted }) {
    const [server, secret] = [identityOf(shake('server')), shake('a')];
    const invited = wire.packed(server, publicOf(shake('server key')), raw(parameters));
    const blank = { run: raw(run), agreement: EMPTY, sender: '', receiver: '', attachment: EMPTY };
    const invitation = wire.signed({ ...blank, kind: 'invitation', body: invited }, shake('server'));
    equal(hex(wire.encode(invitation)), wanted.invitation, 'invitation');
    const members = [...wanted.seats].sort().map((name) => {
      const [identity, runKey] = [identityOf(shake(name)), publicOf(shake(`key ${name}`))];
      const signature = sign(shake(name), wire.joinStatement(raw(run), invited, name, runKey));
      return { name, identity, runKey, signature };
    });
    const seats = wire.seated(members, raw(run));
    equal(seats.map((one) => one.name), wanted.seats, 'seats');
    const rows = seats.map(({ name, identity, runKey, signature }) => [name, identity, runKey, signature]);
    const agreement = (...dealt) => wire.packed(raw(run), invited, rows, EMPTY, ...dealt);
    equal(hex(agreement(roles, helpers, blocks)), wanted.agreement, 'agreement');
    const hash = sha256('codedfl agreement v3|', raw(wanted.agreement));
    equal(hex(hash), wanted.hash, 'hash');
    const pairs = Object.entries(seeds).map(([purpose, seed]) => [purpose, raw(seed)]);
    equal(hex(wire.packed(...wire.committed(pairs, { hash }, 'a', secret))), wanted.commitments, 'commitments');
    refuses(() => wire.readAgreement(agreement([], helpers, [])), 'an agreement without roles');
    if (!roles.length) return; // of the other scheme
    const agreed = wire.readAgreement(raw(wanted.agreement));
    equal([hex(agreed.hash), agreed.roles], [wanted.hash, roles], 'read');
    equal(agreed.owners, wanted.seats.filter((_, seat) => !helpers.includes(seat)), 'owners');
    const changed = (list, from, to) => list.map((one) => (one === from ? to : one));
    const all = blocks.map((one, seat) => (roles[seat] < 0 ? 0 : one));
    refuses(() => wire.readAgreement(agreement(changed(roles, -1, -2), helpers, blocks)), 'a role below -1');
    refuses(() => wire.readAgreement(agreement(changed(roles, -1, 2), helpers, blocks)), 'a role too many');
    refuses(() => wire.readAgreement(agreement(changed(roles, 1, 0), helpers, blocks)), 'a role without holders');
    refuses(() => wire.readAgreement(agreement(roles, helpers, changed(blocks, -1, -2))), 'a block below -1');
    refuses(() => wire.readAgreement(agreement(roles, helpers, all)), 'a block of no role');
  },

  exchange({ parameters, X, Y, numbers, messages, ...given }) {
    const terms = { parameters: raw(parameters), X, Y, numbers: numbers?.map(BigInt) };
    let [drawn, asked, state] = [0, [], NOTHING];
    const device = deviceOf(given, () => drawn++, () => new Set(asked));
    for (const { receives, sends } of messages) {
      const before = drawn;
      const found = wire.decode(raw(receives));
      for (const [what, forged] of forgeries(found)) {
        refuses(() => receive(device, state, wire.encode(forged), terms), what);
      }
      refuses(() => receive(device, state, Buffer.concat([raw(receives), Buffer.of(0)]), terms), 'a byte too many');
      drawn = before; // a refusal may have drawn, and has kept nothing
      const [next, sent] = receive(device, state, raw(receives), terms);
      equal(sent.map((one) => hex(wire.encode(one))), sends, `what is sent upon ${found.kind}`);
      if (next?.question.length) asked.push(hex(next.question));
      again(device, next, found, sent, terms);
      state = next;
    }
    must(state === undefined, 'everything is forgotten');
  },

  async broker({ study, key_file: keyFile, client_id: wanted, parameters, X, Y, frames, ...given }) {
    equal(clientId(given.name, study, raw(keyFile)), wanted, 'client id');
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'codedfl-vectors-'));
    const runs = new Runs(path.join(folder, 'runs'));
    const ledger = new Ledger(path.join(folder, 'ledger'));
    let drawn = 0;
    const device = deviceOf(given, () => drawn++, () => ledger.questions());
    const terms = async () => ({ parameters: raw(parameters), X, Y, statistic: 'gram', alike: ['gram'], most: 1 });
    const sent = [];
    const line = new Line((frame) => sent.push(hex(frame)), (call, fetch) => (
      // anew for every call: all that it knows is on the disk
      new Letters({ device, runs, ledger, terms, log() {}, fail: must }).reply(call, fetch)));
    const take = async (frame, isDone) => {
      sent.length = 0;
      try { line.take(frame); } catch { /* no frame */ }
      while (!isDone()) await new Promise(setImmediate);
    };
    for (const { what, receives, sends } of frames) {
      await take(raw(receives), () => !line.busy);
      equal(sent, sends, what);
    }
    equal([runs.ids(), ledger.of('contribution').length, ledger.questions().size], [[], 1, 2], 'what is on the disk');
    // a call that is fetched by pieces
    const call = wire.packed('dismissal', 'x'.repeat(200_000));
    const digest = sha256(call);
    await take(wire.packed('call', 'large', [digest, call.length]), () => sent.length);
    equal(sent, [hex(wire.packed('fetch', digest, [0, 1, 2]))], 'what is asked for');
    await take(wire.packed('piece', digest, 1, call.subarray(0, 5)), () => true);
    for (const i of [2, 0, 1]) {
      await take(wire.packed('piece', digest, i, call.subarray(i * 98304, (i + 1) * 98304)), () => i !== 1 || !line.busy);
    }
    equal(sent, [hex(wire.packed('reply', 'large', wire.packed('refused', NO_PART)))], 'what is fetched is worked on');
    fs.rmSync(folder, { recursive: true });
  },
};

/** The device of a case, whose secrets have numbers. */
function deviceOf({ name, server, pods }, next, questions) {
  const roster = new Map(pods[0].map((one) => [one, identityOf(shake(one))]));
  const random = () => shake(`${name} ${next()}`);
  return { name, secret: shake(name), server: raw(server), roster, pods, leastOwners: 3, questions, random };
}

/** The same message, signed by the server where it signs, for somebody or something else. */
function forgeries(found) {
  const other = Buffer.alloc(16, 1);
  const flipped = Buffer.from(found.signature);
  if (flipped.length) flipped[5] ^= 1;
  const by = (fields) => wire.signed({ ...found, ...fields }, shake('server'));
  return [
    ['a message for another device', by({ receiver: 'somebody' })],
    ...(found.signature.length && !['role-key-wanted', 'role-keys', 'share', 'certificate'].includes(found.kind)
      ? [['another signature', { ...found, signature: flipped }]] : []),
    ...(found.kind === 'invitation' ? [] : [['a message of another run', by({ run: other })]]),
    ...(found.agreement.length ? [['a message of another agreement', by({ agreement: sha256(other) })]] : []),
    ...(['finish', 'roll-call'].includes(found.kind) ? [] : [['another body', by({ body: wire.packed('x') })]]),
    ['an unknown kind', by({ kind: 'toString' })],
    ['a message that is too long', by({ attachment: Buffer.alloc(2 ** 17) })],
  ];
}

/** What comes again is answered as before; another run, another list, another update of an epoch is refused. */
function again(device, state, found, sent, terms) {
  const forged = (fields) => wire.encode(wire.signed({ ...found, ...fields }, shake('server')));
  const once = (fields) => receive(device, state, forged(fields), terms);
  const encoded = (messages) => messages.map((one) => hex(wire.encode(one)));
  if (['owners', 'update', 'invitation'].includes(found.kind)) {
    equal(encoded(once({})[1]), encoded(sent), `${found.kind} again`);
  }
  if (found.kind === 'invitation') refuses(() => once({ run: Buffer.alloc(16) }), 'a second run');
  if (found.kind === 'owners') {
    const entries = wire.unpacked(found.body, Array.isArray);
    const [second, half] = [entries.map(([name, digest]) => [name, digest, EMPTY]), entries.slice(1)];
    refuses(() => once({ body: wire.packed(...second) }), 'a second list');
    const unsigned = { ...state, owners: EMPTY };
    refuses(() => receive(device, unsigned, forged({ body: wire.packed(...half) }), terms), 'half a pod');
  }
  if (found.kind === 'update') {
    const [epoch, bits, numbers] = wire.unpacked(found.body, Array.isArray);
    refuses(() => once({ body: wire.packed(epoch, bits + 1, numbers) }), 'a second update of an epoch');
    refuses(() => once({ body: wire.packed(epoch - 1, bits, numbers) }), 'an epoch that is over');
    if (device.questions().size === 2) { // with the constant the three that were agreed on
      const third = Buffer.alloc(numbers.length, 1);
      refuses(() => once({ body: wire.packed(epoch + 1, bits, third) }), 'a question too many');
    }
  }
}

let failed = false;
for (const [part, check] of Object.entries(PARTS)) {
  try {
    const { protocol, cases, what } = JSON.parse(fs.readFileSync(path.join(folder, `${part}.json`), 'utf8'));
    must(protocol === wire.VERSION, 'vectors of this protocol');
    for (const one of cases) await check(one);
    console.log(`${part}: ${what.split('\n')[0]}`);
  } catch (error) {
    failed = true;
    console.error(`${part} FAILED: ${error.stack}`);
  }
}
process.exit(failed ? 1 : 0);
