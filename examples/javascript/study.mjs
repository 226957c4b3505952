// Who takes part, who holds which role, over whom may be summed: the page's "A study".

import { must } from './msgpack.mjs';
import { isSigned } from './secrets.mjs';

const hex = (text) => Buffer.from(text, 'hex');
const byBytes = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** A study from JSON, as the page's "What follows from the study" has it; asks apart, see terms.mjs. */
export function readStudy(json) {
  const groups = new Map(Object.entries(json.group).map(([number, names]) => [Number(number), names]));
  const study = {
    digest: hex(json.digest),
    server: hex(json.server),
    key: new Map(Object.entries(json.key).map(([name, key]) => [name, hex(key)])),
    groups,
    owners: new Set([...groups.values()].flat()),
    colluders: json.colluders,
    leastOwners: json.least_owners,
    holders: json.holders,
  };
  return { ...study, role: roles(study) };
}

/** Who holds which role: by the rank in the group; those without rows as if they were the last group. */
export function roles({ key, groups, owners, colluders, holders }) {
  const numbers = [...groups.keys()].sort((a, b) => a - b);
  const rest = [...key.keys()].filter((name) => !owners.has(name));
  const ranked = [...numbers.map((number) => groups.get(number)), rest]
    .flatMap((names, at) => [...names].sort(byBytes).map((name, rank) => [name, (rank + at) % (colluders + 1)]));
  return new Map(ranked.slice(0, holders ?? ranked.length));
}

export function checkEnrolment(study, scope, [name, enrolled, notAfter, signature], now) {
  must(study.key.has(name) && now < notAfter, 'list');
  must(isSigned(study.key.get(name), signature, 'enrolment', ...scope, notAfter, enrolled), 'list');
}

export function checkRoleKey(study, scope, role, [drawer, , rolePublic, signature]) {
  must(study.role.get(drawer) === role, 'role');
  must(isSigned(study.key.get(drawer), signature, 'role key', ...scope, role, rolePublic), 'role');
}

/** Enough owners, each once, ascending, in whole groups: what privacy rests on. */
export function checkList(study, scope, fixed, entries, now) {
  const names = entries.map(([name]) => name);
  const here = new Set(names);
  const whole = [...study.groups].filter(([, owners]) => owners.every((name) => here.has(name)));
  const union = whole.flatMap(([, owners]) => owners).sort(byBytes);
  must(names.length === union.length && names.every((name, i) => name === union[i]), 'list');
  must(names.length >= study.leastOwners, 'list');
  const numbers = whole.map(([number]) => number);
  must(!fixed.length || (numbers.length === fixed.length && fixed.every((one) => numbers.includes(one))), 'list');
  for (const entry of entries) checkEnrolment(study, scope, entry.slice(0, 4), now);
}
