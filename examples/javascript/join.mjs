// A device at a broker: node join.mjs TERMS.json MEMORY.json [--once] --broker mqtts://HOST:PORT --ca --cert --key.

import crypto from 'node:crypto';
import fs from 'node:fs';
import { parseArgs } from 'node:util';
import mqtt from 'mqtt';
import { Device } from './device.mjs';
import { Frames } from './frames.mjs';
import { Memory } from './memory.mjs';
import { encode } from './msgpack.mjs';
import { sha256 } from './secrets.mjs';
import { Terms } from './terms.mjs';

const text = { type: 'string' };
const { values: options, positionals } = parseArgs({
  allowPositionals: true, options: { once: { type: 'boolean' }, broker: text, ca: text, cert: text, key: text },
});
const [termsPath, memoryPath] = positionals;
const terms = Terms.read(termsPath);
const now = () => BigInt(Math.floor(Date.now() / 1000));
const device = new Device(terms, new Memory(memoryPath), now, crypto.randomBytes);

const level = terms.study.digest.subarray(0, 16);
const study = `codedfl/${level.toString('hex')}`;
const [inbox, outbox, server] = [`${study}/${terms.name}/in`, `${study}/${terms.name}/out`, `${study}/server`];
const here = `codedfl/all/${terms.name}/here`;
const key = fs.readFileSync(options.key);
const tag = sha256(Buffer.concat([Buffer.from(`codedfl client id|${terms.name}|`), key])).toString('hex').slice(0, 32);
const will = { topic: here, payload: Buffer.alloc(0), qos: 1, retain: true };
const client = mqtt.connect(options.broker, {
  protocolVersion: 5, clean: true, clientId: `${terms.name}-${tag}`, keepalive: 20, will, queueQoSZero: false,
  ca: fs.readFileSync(options.ca), cert: fs.readFileSync(options.cert), key,
});

let newest = null;
function answer() {
  if (!newest) return;
  const request = newest;
  newest = null;
  frames.reply(sha256(request), device.reply(request));
}
const frames = new Frames(
  (frame) => client.publish(outbox, frame, { qos: 0, properties: { messageExpiryInterval: 60 } }),
  (request) => { newest = request; setImmediate(answer); },
);

client.on('connect', () => {
  client.subscribe([inbox, server], { qos: 1 });
  client.publish(here, encode([crypto.randomBytes(12), [level]]), { qos: 1, retain: true });
});
client.on('message', (topic, payload) => {
  if (topic === inbox) {
    try { frames.take(payload); } catch (error) { console.error(`a frame is not read: ${error.message}`); }
  } else if (options.once && payload.toString() === 'over') {
    client.publish(here, Buffer.alloc(0), { qos: 1, retain: true }, () => client.end(() => process.exit(0)));
  }
});
client.on('error', (error) => console.error(error.message));
setInterval(() => frames.askOn(), 1000);
