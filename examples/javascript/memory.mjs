// What a device must not forget, in one file of JSON: written, flushed and renamed before a reply leaves.

import fs from 'node:fs';
import { must } from './msgpack.mjs';

const hex = (bytes) => Buffer.from(bytes).toString('hex');
const EMPTY = { generation: ['-1', '', '0'], pinned: {}, asked: [], records: {} };

export class Memory {
  /** `path`: the file; none keeps everything in memory. */
  constructor(path = null) {
    this.path = path;
    this.state = path && fs.existsSync(path) ? JSON.parse(fs.readFileSync(path, 'utf8')) : structuredClone(EMPTY);
  }

  write() {
    if (!this.path) return;
    const file = fs.openSync(`${this.path}.new`, 'w', 0o600);
    fs.writeFileSync(file, JSON.stringify(this.state));
    fs.fsyncSync(file);
    fs.closeSync(file);
    fs.renameSync(`${this.path}.new`, this.path);
  }

  /** The newest: number, root (empty once it is over), and its end. */
  get generation() {
    const [number, root, notAfter] = this.state.generation;
    return { number: BigInt(number), root: Buffer.from(root, 'hex'), notAfter: BigInt(notAfter) };
  }

  keep(number, root, notAfter) {
    this.state.generation = [`${number}`, hex(root), `${notAfter}`];
    this.write();
  }

  /** Pin what was padded for an ask; of those that are counted together there may be so many. */
  contribute(ask, digest, counted, most) {
    const { pinned } = this.state;
    const before = Object.hasOwn(pinned, hex(ask));
    must(!before || pinned[hex(ask)][0] === hex(digest), 'rows');
    const alike = Object.values(pinned).filter(([, one]) => one === counted);
    must(before || most === null || alike.length < most, 'budget');
    if (before) return;
    pinned[hex(ask)] = [hex(digest), counted];
    this.write();
  }

  /** Count an e. */
  ask(question, most) {
    const { asked } = this.state;
    if (asked.includes(hex(question))) return;
    must(most === null || asked.length < most, 'budget');
    asked.push(hex(question));
    this.write();
  }

  closed(number, record) {
    this.state.records[number] ??= record.map(([ask, names]) => [hex(ask), names]);
    this.keep(number, Buffer.alloc(0), 0n);
  }
}
