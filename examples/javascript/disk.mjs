// What is on the disk: the page's table of that name. Runs are wiped, the ledger of a study stays.

import fs from 'node:fs';
import path from 'node:path';
import { decode, encode } from '@msgpack/msgpack';
import { must } from './secrets.mjs';

const MONTH = 30 * 24 * 3600 * 1000;

function within(file, flags, use) {
  const handle = fs.openSync(file, flags);
  try { use(handle); } finally { fs.closeSync(handle); }
}
const sync = (folder) => within(folder, 'r', fs.fsyncSync);
const overwrite = (handle) => fs.writeFileSync(handle, Buffer.alloc(fs.fstatSync(handle).size), { flush: true });

/** All or nothing, also if this process is killed on the way; what the file had before is overwritten. */
function write(file, data) {
  const rename = () => { fs.renameSync(`${file}.next`, file); sync(path.dirname(file)); };
  fs.writeFileSync(`${file}.next`, data, { mode: 0o600, flush: true });
  if (!fs.existsSync(file)) rename();
  else within(file, 'r+', (former) => { rename(); overwrite(former); });
}

/** Everything of a run, its letters too, is one file: STATE/NAME/runs/RUN/state. */
export class Runs {
  constructor(folder) {
    this.folder = folder;
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.expire();
  }

  /** A run that was not heard of for 30 days is wiped, and what a killed process left of one. */
  expire() {
    for (const id of ['gone', ...this.ids()]) {
      if (!fs.existsSync(this.file(id)) || Date.now() - fs.statSync(this.file(id)).mtimeMs > MONTH) this.wipe(id);
    }
  }

  ids() { return fs.readdirSync(this.folder); }

  file(id) { return path.join(this.folder, id, 'state'); }

  load(id) { return fs.existsSync(this.file(id)) ? decode(fs.readFileSync(this.file(id))) : undefined; }

  save(id, record) {
    fs.mkdirSync(path.join(this.folder, id), { recursive: true, mode: 0o700 });
    write(this.file(id), encode(record));
    sync(this.folder);
  }

  /** Overwritten and removed; if this process is killed on the way, what is left is no run any more. */
  wipe(id) {
    const [folder, gone] = [path.join(this.folder, id), path.join(this.folder, 'gone')];
    if (!fs.existsSync(folder)) return;
    fs.renameSync(folder, gone);
    for (const file of fs.readdirSync(gone)) within(path.join(gone, file), 'r+', overwrite);
    fs.rmSync(gone, { recursive: true });
    sync(this.folder);
  }
}

/** What this device has contributed to and which questions it has answered, over the life of a study. */
export class Ledger {
  constructor(file) {
    this.file = file;
    this.entries = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : [];
  }

  of(kind) { return this.entries.filter(([what]) => what === kind); }

  /** A contribution has statistic, ask and run, a question the digest of e and the run. */
  add(...entry) {
    if (this.entries.some((one) => `${one}` === `${entry}`)) return;
    write(this.file, JSON.stringify([...this.entries, entry], null, 1));
    this.entries.push(entry);
  }

  questions() { return new Set(this.of('question').map(([, digest]) => digest)); }

  /** Refuse an ask that would be one too many among statistics that are alike; null allows any number. */
  check({ alike, most }, ask) {
    const asks = this.of('contribution').filter(([, statistic]) => alike.includes(statistic)).map(([, , one]) => one);
    must(most === null || new Set([...asks, ask]).size <= most, 'no more asks than the study allows');
  }
}
