/** Check the device against the vectors: node vectors.mjs FOLDER */

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { Device } from './device.mjs';
import { Memory } from './memory.mjs';
import { fromBytes, product, toBytes, wordsOf, spans } from './numbers.mjs';
import * as secrets from './secrets.mjs';
import { readTerms, roles } from './study.mjs';
import { decode } from './wire.mjs';

const hex = (text) => Buffer.from(text, 'hex');

function same(found, expected, what) {
  assert.equal(Buffer.isBuffer(found) ? found.toString('hex') : found, expected, what);
}

const layouts = (one) => {
  const { layout } = one;
  const entry = (i, j) => BigInt(one.factor) * BigInt(((7 * i + 13 * j) % 101) - 50);
  const square = Array.from({ length: layout.size }, (_, i) =>
    Array.from({ length: layout.size }, (__, j) => entry(Math.min(i, j), Math.max(i, j))),
  );
  const words = wordsOf(layout, one.vector.map(BigInt), square);
  const e = BigUint64Array.from(one.e.flat().map(BigInt));
  const rows = layout.size ? product(layout, words.slice(spans(layout)[0]), e, one.rows) : new BigUint64Array(0);
  for (const [name, made] of Object.entries({ words, product: rows })) {
    const data = toBytes(layout.bits, made);
    if (name in one) same(data, one[name], name);
    else same(secrets.sha256(data), one[`${name}_sha256`], name);
  }
};

const keys = (one) => {
  const of = (name) => hex(one[name]);
  const scope = [of('study'), one.generation];
  const a = secrets.derive(of('root'), 'device key', ...scope);
  const b = secrets.derive(of('drawer_root'), 'role key', ...scope, one.role);
  const drawer = secrets.derive(of('drawer_root'), 'device key', ...scope);
  const [A, B, D] = [a, b, drawer].map(secrets.publicOf);
  const label = secrets.labelOf(of('study'), of('ask'));
  const nonce = secrets.keyedHash(scope, of('root'), 'nonce', label, of('plain'));
  const server = secrets.publicOf(of('server_key'));
  const made = {
    packed: secrets.pack('abc', Buffer.alloc(0), 7),
    identity: secrets.identityOf(of('secret')),
    signature: secrets.sign(of('secret'), 'enrolment', ...scope, one.not_after, A),
    device_key: a,
    device_public: A,
    role_key: b,
    role_public: B,
    label,
    nonce,
    pad_key: secrets.padKey(secrets.shared(a, B), one.role, [of('study'), one.name, A], B, label, nonce),
    sealed_role_key: secrets.sealRoleKey(b, scope, secrets.shared(drawer, A), one.role, D, A, B),
    sealed_reply: secrets.sealReply(scope, of('root'), a, server, of('request'), of('reply')),
  };
  for (const [name, value] of Object.entries(made)) same(value, one[name], name);
};

const pads = (one) => same(toBytes(one.bits, secrets.pad(hex(one.key), one.bits, one.first, one.count)), one.words);

const rosters = (one) => {
  const group = new Map(Object.entries(one.group).map(([number, names]) => [Number(number), names]));
  const owners = new Set([...group.values()].flat());
  const key = new Map([...owners, ...one.key_only].map((name) => [name, null]));
  assert.deepEqual(Object.fromEntries(roles({ ...one, group, owners, key })), one.roles);
};

const codeOf = (reply) => decode(reply, (found) => found.get('code'));

/** Every request of a device; then an upload again, of rows that have changed since. */
const exchange = (one) => {
  const [roots, memory, clock] = [[...one.roots], new Memory(one.study.digest), { now: 0 }];
  const given = { now: () => clock.now, random: () => hex(roots.shift()) };
  const device = new Device(readTerms(one), memory, given);
  for (const step of one.steps) {
    clock.now = step.now;
    same(device.reply(hex(step.receives)), step.sends, `${one.name}: ${step.what}`);
    if (step.what !== 'upload' || step.kind !== 'ok') continue;
    const other = structuredClone(one);
    for (const rows of Object.values(other.rows)) rows.vector[0] += '1';
    const changed = new Device(readTerms(other), memory, given);
    changed.contents = device.contents;
    same(codeOf(changed.reply(hex(step.receives))), 'rows', `${one.name}: rows that have changed`);
  }
};

const PARTS = { layouts, keys, pads, rosters, exchange };
for (const [name, check] of Object.entries(PARTS)) {
  const { cases } = JSON.parse(fs.readFileSync(path.join(process.argv[2], `${name}.json`), 'utf8'));
  cases.forEach(check);
  console.log(`${name}: ${cases.length} cases`);
}
