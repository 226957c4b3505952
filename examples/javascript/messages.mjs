// What travels, what is signed, who checks what: the page's section "Messages".

import { decode as fromMsgpack, encode as toMsgpack } from '@msgpack/msgpack';
import { commitment, EMPTY, hex, must, same, sha256, sign, verify } from './secrets.mjs';
import { primesFor, scales } from './numbers.mjs';

export const VERSION = 3;

export const packed = (...fields) => Buffer.from(toMsgpack(fields));

// Types of fields, as predicates.
export const text = (v) => typeof v === 'string';
export const bytes = (v) => v instanceof Uint8Array;
export const whole = Number.isSafeInteger;
export const listOf = (one) => (v) => Array.isArray(v) && v.every(one);
export const list = (...types) => (v) => Array.isArray(v) && v.length === types.length
  && types.every((is, i) => is(v[i]));

/**
 * A list of these types. What would not be packed to the very same bytes is refused: so a float is no whole number, no
 * text is spoiled UTF-8, nothing is longer than msgpack needs, and nothing is left over.
 */
export function unpacked(data, type) {
  const found = fromMsgpack(data);
  must(type(found) && same(packed(...found), data), 'a list of the fields of this message');
  return found;
}

const FIELDS = ['kind', 'run', 'agreement', 'sender', 'receiver', 'body', 'attachment', 'signature'];
const MESSAGE = list(text, whole, text, bytes, bytes, text, text, bytes, bytes, bytes);

export const context = (m) => packed('codedfl', VERSION, m.kind, m.run, m.agreement, m.sender, m.receiver);
export const encode = (m) => packed('codedfl', VERSION, ...FIELDS.map((field) => m[field]));
export const signedPart = (m) => Buffer.concat([context(m), sha256(m.body), sha256(m.attachment)]);
export const signed = (m, secret) => ({ ...m, signature: sign(secret, signedPart(m)) });

export function decode(data) {
  const [magic, version, ...values] = unpacked(data, MESSAGE);
  must(magic === 'codedfl' && version === VERSION, 'a message of this protocol and version');
  return Object.fromEntries(FIELDS.map((field, i) => [field, values[i]]));
}

/** `Parameters` of the page, as they travel; null where they ask for something that this device does not do. */
export function readParameters(data) {
  const [scheme, alpha, d, outputs, features, labels, rows, perDevice, precision, samples, masks, groups, revealsGram,
    epochs, , colluders, owners, wholeLimit, narrow, ...more] = fromMsgpack(data);
  const fixed = [scheme, alpha, precision, samples, masks, groups, revealsGram, narrow, more.length];
  if (`${fixed}` !== 'role-keys,1,-1,-1,true,1,false,false,0' || colluders < 1) return null;
  const limit = BigInt(`0x${hex(wholeLimit)}`); // 0 for rows
  return { d, outputs, features, labels, rows, perDevice, epochs, colluders, owners, limit };
}

/** The ring, and for rows the grids; totals of whole numbers (with a limit) have a ring only. */
export function ringOf(p, owners) {
  if (!p.limit) { const primes = primesFor(p.owners || owners); return { primes, bits: scales(p, primes) }; }
  const two = primesFor(1);
  return { primes: 8n * p.limit > BigInt(two[0]) * BigInt(two[1]) ? primesFor(1, 3) : two };
}

export const joinStatement = (run, invited, name, runKey) => packed('codedfl join v3', run, invited, name, runKey);

/** Members in the order that everybody's run keys draw. */
export function seated(members, run) {
  const lot = sha256('codedfl seats v3|', run, ...members.map((one) => one.runKey).sort(Buffer.compare));
  const draw = (one) => sha256(lot, one.runKey);
  return [...members].sort((a, b) => Buffer.compare(draw(a), draw(b)));
}

const AGREEMENT = list(bytes, bytes, listOf(list(text, bytes, bytes, bytes)), bytes,
  listOf(whole), listOf(whole), listOf(whole));

/** The frozen set: refused unless every member joined this very invitation, each once, in the seats that were drawn. */
export function readAgreement(data) {
  const [run, invited, rows, theta, roles, helpers, blocks] = unpacked(data, AGREEMENT);
  const members = rows.map(([name, identity, runKey, signature]) => ({ name, identity, runKey, signature }));
  const [n, names] = [members.length, members.map((one) => one.name)];
  must(new Set(names).size === n, 'each device once');
  must(new Set(members.map((one) => hex(one.identity))).size === n, 'each identity once');
  must(seated(members, run).every((one, i) => one === members[i]), 'seats are those that the run keys draw');
  must(helpers.every((seat, i) => seat > (i ? helpers[i - 1] : -1) && seat < n) && !theta.length, 'helpers have seats');
  for (const { name, identity, runKey, signature } of members) {
    verify(identity, joinStatement(run, invited, name, runKey), signature);
  }
  const p = readParameters(unpacked(invited, list(bytes, bytes, bytes))[2]);
  const nBlocks = Math.max(0, ...blocks) + 1;
  const held = new Set(roles.map((role, i) => `${role} ${blocks.length ? blocks[i] : 0}`));
  must(roles.length === n && (!blocks.length || blocks.length === n), 'every seat has its role and its block');
  must(!blocks.length || (nBlocks > 1 && nBlocks <= p.d), 'a block has rows, and there are others');
  must(Math.max(...roles) <= p.colluders && Math.min(...roles, ...blocks) >= -1, 'there are z + 1 roles');
  must(blocks.every((block, i) => block < 0 || roles[i] >= 0), 'who has no role keeps no rows');
  for (let role = 0; role <= p.colluders; role++) {
    for (let k = 0; k < nBlocks; k++) must(held.has(`${role} ${k}`), 'a holder for every block of each role');
  }
  const owners = names.filter((_, i) => !helpers.includes(i));
  const everything = [...Array(nBlocks).keys()];
  const seat = (name) => { must(names.includes(name), 'somebody of the agreement'); return names.indexOf(name); };
  const kept = (name) => { const k = blocks.length ? blocks[seat(name)] : 0; return k < 0 ? everything : [k]; };
  return {
    run, invited, members, names, roles, owners, nBlocks, p, everything, ...ringOf(p, owners.length),
    hash: sha256('codedfl agreement v3|', data), seat, kept,
    member: (name) => members[seat(name)], role: (name) => roles[seat(name)],
  };
}

export const roleKeyStatement = ({ run, hash }, role, key) => packed('codedfl role key v1', run, hash, role, key);

export function checkRoleKey(agreed, role, key, signer, signature) {
  must(agreed.role(signer) === role, 'the key of a role is signed by its holders');
  verify(agreed.member(signer).identity, roleKeyStatement(agreed, role, key), signature);
}

export const COMMITMENTS = list(listOf(list(text, bytes)), bytes);
const commitmentStatement = (pairs, agreed, owner) => packed('codedfl commitments v4', agreed.hash, owner, pairs);

/** [[[purpose, digest], ...], signature] of seeds by purpose. */
export function committed(seeds, agreed, owner, secret) {
  const pairs = seeds.map(([purpose, seed]) => [purpose, commitment(seed, agreed.hash, owner, purpose)]);
  return [pairs, sign(secret, commitmentStatement(pairs, agreed, owner))];
}

export const checkCommitted = ([pairs, signature], agreed, owner) => verify(
  agreed.member(owner).identity, commitmentStatement(pairs, agreed, owner), signature);

export const fits = ([pairs], agreed, owner, purpose, seed) => seed.length === 32
  && same(new Map(pairs).get(purpose) ?? EMPTY, commitment(seed, agreed.hash, owner, purpose));

/** An envelope for a role opens beside the commitments that it was sealed with alone. */
export const seedContext = (agreed, owner, purpose, commitments) => Buffer.concat([
  context({ kind: 'share', run: agreed.run, agreement: agreed.hash, sender: owner, receiver: purpose }),
  sha256(packed(...commitments))]);

export const listDigest = (owners) => sha256('codedfl owners v3|', owners);
export const listStatement = ({ run, hash }, owners) => packed(
  'codedfl owners signed v3', run, hash, listDigest(owners));
export const signaturesNeeded = (agreed) => Math.floor((agreed.names.length + agreed.p.colluders) / 2) + 1;
