// A device on two pipes: node serve.mjs TERMS.json MEMORY.json. The page's "How requests travel".

import crypto from 'node:crypto';
import { Device } from './device.mjs';
import { Memory } from './memory.mjs';
import { Terms } from './terms.mjs';

const [termsPath, memoryPath] = process.argv.slice(2);
if (!memoryPath) {
  console.error('node serve.mjs TERMS.json MEMORY.json');
  process.exit(2);
}
const now = () => BigInt(Math.floor(Date.now() / 1000));
const device = new Device(Terms.read(termsPath), new Memory(memoryPath), now, crypto.randomBytes);

let waiting = Buffer.alloc(0);
process.stdin.on('data', (piece) => {
  waiting = Buffer.concat([waiting, piece]);
  while (waiting.length >= 4 && waiting.length >= 4 + waiting.readUInt32BE()) {
    const end = 4 + waiting.readUInt32BE();
    const reply = device.reply(waiting.subarray(4, end));
    waiting = waiting.subarray(end);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(reply.length);
    process.stdout.write(Buffer.concat([length, reply]));
  }
});
