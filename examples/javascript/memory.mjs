/** What a device must not forget: one file, replaced before a reply that follows from it leaves. */

import fs from 'node:fs';
import path from 'node:path';

import { must } from './wire.mjs';

export class Memory {
  /** Of the study with this digest; without a file nothing outlives the process. */
  constructor(study, file = '') {
    this.file = file;
    this.kept = { study, generation: ['-1', '', '0'], pinned: {}, asked: [], records: {} };
    if (file && fs.existsSync(file)) this.kept = JSON.parse(fs.readFileSync(file, 'utf8'));
    if (this.kept.study !== study) throw new Error(`${file} must be of this study, got another's; name another file`);
    this.written = JSON.stringify(this.kept);
  }

  /** Number, root (empty once it is over) and end of the newest generation. */
  get generation() {
    const [number, root, notAfter] = this.kept.generation;
    return [BigInt(number), Buffer.from(root, 'hex'), BigInt(notAfter)];
  }

  set generation([number, root, notAfter]) {
    this.kept.generation = [String(number), root.toString('hex'), String(notAfter)];
  }

  /** These must be the bytes that the ask had before; an ask more is taken, if there is room for it. */
  pin(ask, digest, counted, most) {
    const { pinned } = this.kept;
    const [named, value] = [ask.toString('hex'), digest.toString('hex')];
    must((pinned[named]?.[0] ?? value) === value, 'rows');
    const alike = Object.values(pinned).filter(([, one]) => one === counted).length;
    must(pinned[named] || most === null || alike < most, 'budget');
    pinned[named] = [value, counted];
  }

  /** Count an e; the same again is free. */
  count(question, most) {
    const named = question.toString('hex');
    if (this.kept.asked.includes(named)) return;
    must(most === null || this.kept.asked.length < most, 'budget');
    this.kept.asked.push(named);
  }

  record(generation, record) {
    this.kept.records[generation] ??= record.map(([digest, names]) => [digest.toString('hex'), names]);
  }

  /** Written, flushed, renamed into place. */
  save() {
    const text = JSON.stringify(this.kept);
    if (!this.file || text === this.written) return;
    const beside = `${this.file}.new`;
    fs.writeFileSync(beside, text, { mode: 0o600, flush: true });
    fs.renameSync(beside, this.file);
    const folder = fs.openSync(path.dirname(this.file), 'r');
    fs.fsyncSync(folder);
    fs.closeSync(folder);
    this.written = text;
  }
}
