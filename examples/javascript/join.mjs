/**
 * A device at a broker, until the study is over:
 * node join.mjs TERMS.json MEMORY.json --once --broker mqtts://HOST:PORT --ca CA.pem --cert NAME.pem --key NAME.key
 */

import crypto from 'node:crypto';
import fs from 'node:fs';
import { parseArgs } from 'node:util';

import { Connection } from './broker.mjs';
import { Device } from './device.mjs';
import { Frames } from './frames.mjs';
import { Memory } from './memory.mjs';
import { readTerms } from './study.mjs';
import { encode } from './wire.mjs';

const AGAIN = 1000; // milliseconds until a lost connection is tried again
const text = { type: 'string' };
const options = { once: { type: 'boolean' }, broker: text, ca: text, cert: text, key: text };
const { values, positionals: [terms, kept] } = parseArgs({ options, allowPositionals: true });

const told = JSON.parse(fs.readFileSync(terms, 'utf8'));
const device = new Device(readTerms(told), new Memory(told.study.digest, kept));
const study = device.study.digest.subarray(0, 16);
const base = `codedfl/${study.toString('hex')}`;
const here = `codedfl/all/${device.name}/here`;
const { hostname: host, port } = new URL(values.broker);
const [ca, cert, key] = [values.ca, values.cert, values.key].map((file) => fs.readFileSync(file));
const drawn = crypto.createHash('sha256').update(`codedfl client id|${device.name}|`).update(key).digest('hex');
const id = `${device.name}-${drawn.slice(0, 32)}`;

let connection = null;
const frames = new Frames(device, (frame) => connection.send(`${base}/${device.name}/out`, frame));

function connect() {
  connection = new Connection({ host, port, id, will: here, ca, cert, key });
  connection.on('up', () => {
    connection.subscribe(`${base}/${device.name}/in`, `${base}/server`);
    connection.retain(here, encode([crypto.randomBytes(12), [study]]));
  });
  connection.on('message', (topic, data) => {
    if (topic === `${base}/${device.name}/in`) frames.receive(data);
    else if (values.once && data.toString() === 'over') leave();
  });
  connection.on('down', (reason, takenOver) => {
    console.error(`${device.name}: ${reason}`);
    if (takenOver) process.exit(1);
    setTimeout(connect, AGAIN);
  });
}

/** Take away that it is here; then end. */
function leave() {
  connection.removeAllListeners('down').on('confirmed', () => {
    connection.end();
    process.exit(0);
  });
  connection.retain(here, Buffer.alloc(0));
}

setInterval(() => {
  device.expire();
  frames.pull();
}, 1000);
connect();
