/** What a device is told of its study, and who may be summed over: "A study" in docs/protocol.md. */

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';

import { fromBytes, wordsOf } from './numbers.mjs';
import { isSigned } from './secrets.mjs';
import { must } from './wire.mjs';

const KNOWN = 8; // asks of which what follows is kept

const hex = (found) => Buffer.from(found, 'hex');
const byBytes = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** The study as it was approved, without its asks. */
export function studyOf(told) {
  const group = new Map(Object.entries(told.group).map(([number, names]) => [Number(number), names]));
  const key = new Map(Object.entries(told.key).map(([name, one]) => [name, hex(one)]));
  const study = { ...told, digest: hex(told.digest), server: hex(told.server), key, group };
  study.owners = new Set([...group.values()].flat());
  study.role = roles(study);
  return study;
}

/** Who holds which role: by the rank in the group; those without rows come last, as if one more group. */
export function roles({ group, key, owners, holders, colluders }) {
  const groups = [...group].toSorted(([a], [b]) => a - b).map(([, names]) => names);
  groups.push([...key.keys()].filter((name) => !owners.has(name)));
  const roleOf = (rank) => rank % (colluders + 1);
  const ranked = groups.flatMap((names, at) => names.toSorted(byBytes).map((name, rank) => [name, roleOf(rank + at)]));
  return new Map(ranked.slice(0, holders ?? ranked.length));
}

/** Of somebody on the roster, not expired, signed. */
export function checkEnrolment(study, scope, [name, own, notAfter, signature], now) {
  must(study.key.has(name) && now < notAfter, 'list');
  must(isSigned(study.key.get(name), signature, 'enrolment', ...scope, notAfter, own), 'list');
}

/** Signed by a holder of this very role. */
export function checkRoleKey(study, scope, role, [drawer, , own, signature]) {
  must(study.role.get(drawer) === role, 'role');
  must(isSigned(study.key.get(drawer), signature, 'role key', ...scope, role, own), 'role');
}

/** Enough owners, each once, ascending, in whole groups: what privacy rests on. */
export function checkList(study, scope, fixed, entries, now) {
  const names = entries.map(([name]) => name);
  const listed = new Set(names);
  const whole = [...study.group].filter(([, group]) => group.every((name) => listed.has(name)));
  const expected = whole.flatMap(([, group]) => group).toSorted(byBytes);
  must(names.length === expected.length && names.every((name, i) => name === expected[i]), 'list');
  must(names.length >= (fixed.length ? study.colluders + 2 : study.least_owners), 'list');
  must(!fixed.length || (whole.length === fixed.length && whole.every(([number]) => fixed.includes(number))), 'list');
  entries.forEach((entry) => checkEnrolment(study, scope, entry, now));
}

const layoutOf = (told) => ({ ...told, limit: BigInt(told.limit), room: BigInt(told.room) });

/** Of one ask, as the vectors have it. */
function ofVectors(told, ask) {
  const { layout, fixed } = told.study;
  must(Object.hasOwn(layout, ask), 'request');
  const found = { layout: layoutOf(layout[ask]), fixed: fixed[ask] ?? [] };
  const { vector, matrix } = told.rows[ask] ?? {};
  if (vector) found.words = wordsOf(found.layout, vector.map(BigInt), matrix.map((row) => row.map(BigInt)));
  return { ...found, counted: '', arguments: told.arguments };
}

/** Of one ask of a real study: what another program says. */
function ofProgram([program, ...args], ask) {
  const said = spawnSync(program, [...args, ask], { encoding: 'utf8', maxBuffer: 2 ** 30 });
  must(said.status === 0, 'request');
  const found = JSON.parse(said.stdout);
  const layout = layoutOf(found.layout);
  return { ...found, layout, words: fromBytes(layout.bits, hex(found.plain)) };
}

/** What TERMS.json says, in either form; `about` gives what follows of one ask. */
export function readTerms(told) {
  const secret = hex(told.secret ?? fs.readFileSync(told.key_file, 'utf8').trim());
  const known = new Map();
  const about = (ask) => {
    const named = ask.toString('hex');
    if (!known.has(named)) known.set(named, told.command ? ofProgram(told.command, named) : ofVectors(told, named));
    if (known.size > KNOWN) known.delete(known.keys().next().value);
    return known.get(named);
  };
  const needs = (ask) => told.study.needs?.[ask?.toString('hex')]?.toSorted() ?? [];
  return { name: told.name, secret, study: studyOf(told.study), directions: told.directions, about, needs };
}
