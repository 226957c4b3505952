// What a device is told of its study by a program of its operator: the page's "What follows from the study".

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { must } from './msgpack.mjs';
import { toBytes, wordsOf } from './numbers.mjs';
import { readStudy } from './study.mjs';

const MOST_BYTES = 2 ** 30;
const KNOWN = 8; // asks

export class Terms {
  constructor(json) {
    this.json = json;
    this.name = json.name;
    this.secret = Buffer.from(json.secret ?? fs.readFileSync(json.key_file, 'utf8').trim(), 'hex');
    this.study = readStudy(json.study);
    this.directions = json.directions;
    this.known = new Map();
  }

  static read(path) {
    return new Terms(JSON.parse(fs.readFileSync(path, 'utf8')));
  }

  /** Of an ask: its layout, the groups it is for, the bytes that are padded, how many may be counted with it. */
  about(ask) {
    const name = ask.toString('hex');
    if (!this.known.has(name)) {
      const found = this.json.command ? this.asked(name) : this.given(name);
      if (this.known.size >= KNOWN) this.known.delete(this.known.keys().next().value);
      this.known.set(name, found);
    }
    return this.known.get(name);
  }

  given(ask) {
    const { study, rows, arguments: most } = this.json;
    must(Object.hasOwn(study.layout, ask), 'request');
    const [layout, here] = [study.layout[ask], rows[ask]];
    const words = here && wordsOf(layout, here.vector.map(BigInt), here.matrix.map((row) => row.map(BigInt)));
    const plain = here ? toBytes(layout.bits, words) : null;
    return { layout, fixed: study.fixed[ask] ?? [], plain, counted: '', most };
  }

  /** Digests of the contents that an ask needs, ascending; in hexadecimal. */
  needs(ask) {
    return [...(this.json.study.needs?.[ask.toString('hex')] ?? [])].sort();
  }

  asked(ask) {
    const [program, ...rest] = this.json.command;
    const made = spawnSync(program, [...rest, ask], { maxBuffer: MOST_BYTES, encoding: 'utf8' });
    must(made.status === 0, 'request');
    const { layout, fixed, plain, counted, arguments: most } = JSON.parse(made.stdout);
    return { layout, fixed, plain: Buffer.from(plain, 'hex'), counted, most };
  }
}
