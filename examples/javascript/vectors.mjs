// Holds this device against the vectors: node vectors.mjs FOLDER. The page's "Test vectors".

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { Device } from './device.mjs';
import { Memory } from './memory.mjs';
import { decode, text, bytes } from './msgpack.mjs';
import { pad, product, spans, toBytes, wordsOf } from './numbers.mjs';
import * as secrets from './secrets.mjs';
import { roles } from './study.mjs';
import { Terms } from './terms.mjs';

const hex = (value) => Buffer.from(value, 'hex');
const same = (made, expected, what) => assert.equal(Buffer.from(made).toString('hex'), expected, what);

function layouts(one) {
  const { layout, rows } = one;
  const [range, factor] = [[...Array(layout.size).keys()], BigInt(one.factor)];
  const entry = (i, j) => factor * BigInt(((7 * Math.min(i, j) + 13 * Math.max(i, j)) % 101) - 50);
  const words = wordsOf(layout, one.vector.map(BigInt), range.map((i) => range.map((j) => entry(i, j))));
  const made = { words: toBytes(layout.bits, words), product: Buffer.alloc(0) };
  if (layout.size) {
    const e = one.e.flat().map(BigInt);
    made.product = toBytes(layout.bits, product(layout, words.subarray(spans(layout)[0]), e, ...rows));
  }
  for (const [name, data] of Object.entries(made)) {
    if (name in one) same(data, one[name], name); else same(secrets.sha256(data), one[`${name}_sha256`], name);
  }
}

function keys(one) {
  const of = (name) => hex(one[name]);
  const scope = [of('study'), one.generation];
  const [a, b] = [secrets.derive(of('root'), 'device key', ...scope),
    secrets.derive(of('drawer_root'), 'role key', ...scope, one.role)];
  const drawer = secrets.derive(of('drawer_root'), 'device key', ...scope);
  const [A, B] = [secrets.publicOf(a), secrets.publicOf(b)];
  const label = secrets.labelOf(of('study'), of('ask'));
  const nonce = secrets.keyedHash(scope, of('root'), 'nonce', label, of('plain'));
  const owner = [of('study'), one.name, A];
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
    pad_key: secrets.padKey(secrets.shared(a, B), one.role, owner, B, label, nonce),
    sealed_role_key: secrets.sealRoleKey(scope, drawer, one.role, A, b),
    sealed_reply: secrets.sealReply(scope, of('root'), a, server, of('request'), of('reply')),
  };
  for (const [name, data] of Object.entries(made)) same(data, one[name], name);
  assert(secrets.same(secrets.openRoleKey(scope, a, one.role, secrets.publicOf(drawer), B, made.sealed_role_key), b));
  assert(secrets.isSigned(made.identity, made.signature, 'enrolment', ...scope, one.not_after, A));
}

function pads(one) {
  const words = pad(hex(one.key), one.bits, one.first, one.first + one.count);
  same(toBytes(one.bits, words), one.words, 'a pad');
}

function rosters(one) {
  const groups = new Map(Object.entries(one.group).map(([number, names]) => [Number(number), names]));
  const owners = new Set([...groups.values()].flat());
  const key = new Map([...owners, ...one.key_only].map((name) => [name, null]));
  const found = roles({ key, groups, owners, colluders: one.colluders, holders: one.holders });
  assert.deepEqual(Object.fromEntries(found), one.roles);
}

const REPLY = { kind: text, request: 32, enrolment: () => true, code: () => true, body: bytes };

/** Every step, twice: the reply to a request is always the same. */
function exchange(one) {
  let now = 0n;
  const roots = one.roots.map(hex);
  const device = new Device(new Terms(one), new Memory(), () => now, () => roots.shift());
  for (const step of one.steps) {
    now = BigInt(step.now);
    for (const again of [false, true]) same(device.reply(hex(step.receives)), step.sends, `${step.what}, again: ${again}`);
  }
}

/** Rows that have changed are not uploaded again. */
function changedRows(one) {
  const terms = new Terms(structuredClone(one));
  const device = new Device(terms, new Memory(), () => BigInt(one.steps[0].now), () => hex(one.roots[0]));
  const found = one.steps.filter((step) => step.code === '').slice(0, 3).map((step) => hex(step.receives));
  const code = (data) => decode(device.reply(data), REPLY).code;
  assert.deepEqual(found.map(code), ['', '', '']);
  terms.known.clear();
  for (const rows of Object.values(terms.json.rows)) rows.vector[0] = `${BigInt(rows.vector[0]) + 1n}`;
  assert.deepEqual(found.map(code), ['', '', 'rows']);
}

const PARTS = { layouts, keys, pads, rosters, exchange };
const folder = process.argv[2] ?? '../../spec/vectors';
for (const file of fs.readdirSync(folder)) {
  const { part, protocol, cases } = JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8'));
  assert.equal(protocol, 4);
  cases.forEach((one) => PARTS[part](one));
  if (part === 'exchange') changedRows(cases[0]);
  console.log(`${part}: ${cases.length} cases`);
}
