/** A device on two pipes: node serve.mjs TERMS.json MEMORY.json */

import fs from 'node:fs';

import { Device } from './device.mjs';
import { Memory } from './memory.mjs';
import { readTerms } from './study.mjs';

const [terms, memory] = process.argv.slice(2);
const told = JSON.parse(fs.readFileSync(terms, 'utf8'));
const device = new Device(readTerms(told), new Memory(told.study.digest, memory));
device.expire();

const MOST = 2 ** 26; // bytes of a request
let held = Buffer.alloc(0);
for await (const data of process.stdin) {
  held = Buffer.concat([held, data]);
  while (held.length >= 4) {
    const end = 4 + held.readUInt32BE();
    if (end > 4 + MOST) throw new Error(`a request must have at most ${MOST} bytes, got ${end - 4}; end the sender`);
    if (held.length < end) break;
    const reply = device.reply(held.subarray(4, end));
    held = held.subarray(end);
    const size = Buffer.alloc(4);
    size.writeUInt32BE(reply.length);
    process.stdout.write(Buffer.concat([size, reply]));
  }
}
