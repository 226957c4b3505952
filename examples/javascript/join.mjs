// A device of role keys at a broker: the page's sections "At a broker" and "Another implementation".
//
// node join.mjs [--once] --terms COMMAND --state STATE/NAME --broker mqtts://HOST:PORT --ca PEM --cert PEM --key KEY

import { execFile } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import mqtt from 'mqtt';
import { Ledger, Runs } from './disk.mjs';
import { Letters } from './letters.mjs';
import { clientId, Line } from './line.mjs';
import { packed } from './messages.mjs';
import { hex, same } from './secrets.mjs';

/** Reasons are for this device's operator alone; nobody can fill a disk with them. */
let lines = [];
function log(line) {
  const now = Date.now();
  lines = [...lines.slice(-30).filter((at) => now - at < 60_000), now];
  if (lines.length <= 30) console.log(`${new Date(now).toISOString()} ${line}`);
}
function fail(line) {
  console.log(line);
  process.exit(1);
}

const names = ['terms', 'state', 'broker', 'ca', 'cert', 'key'];
const options = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
const { values: given } = parseArgs({ options: { ...options, once: { type: 'boolean', default: false } } });
for (const name of names) if (!given[name]) fail(`--${name} is missing`);

/** What the operator's program says: without an ask of the study, with one of what follows from it. */
async function terms(...asks) {
  const command = [given.terms, ...asks.map(hex)].join(' ');
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', command], { maxBuffer: 2 ** 30 });
  const found = JSON.parse(stdout);
  const numbers = found.numbers?.map(BigInt);
  return { ...found, parameters: Buffer.from(found.parameters ?? '', 'hex'), numbers };
}

const approved = await terms().catch((error) => fail(`--terms: ${error.message}`));
const digest = Buffer.from(approved.digest, 'hex');
const ledger = new Ledger(path.join(given.state, `ledger-${approved.digest}.json`));
const device = {
  name: approved.name,
  secret: Buffer.from(fs.readFileSync(path.join(given.state, 'device.key'), 'utf8').trim(), 'hex'),
  server: Buffer.from(approved.server, 'hex'),
  roster: new Map(Object.entries(approved.roster).map(([name, key]) => [name, Buffer.from(key, 'hex')])),
  pods: approved.pods,
  leastOwners: approved.least_owners,
  questions: () => ledger.questions(),
  random: crypto.randomBytes,
};
const letters = new Letters({ device, runs: new Runs(path.join(given.state, 'runs')), ledger, terms, log, fail });

const [base, server] = [`codedfl/${approved.study}/${approved.name}`, `codedfl/${approved.study}/server`];
const key = fs.readFileSync(given.key);
const gone = { topic: `${base}/here`, payload: Buffer.alloc(0), qos: 1, retain: true };
const client = mqtt.connect(given.broker, {
  protocolVersion: 5, clean: true, keepalive: 20, reconnectPeriod: 2000, resubscribe: false, will: gone,
  clientId: clientId(approved.name, approved.study, key),
  ca: fs.readFileSync(given.ca), cert: fs.readFileSync(given.cert), key,
});

const expiring = { qos: 1, properties: { messageExpiryInterval: 60 } };
const line = new Line(
  (frame) => client.connected && client.publish(`${base}/out`, frame, expiring),
  (call, fetch) => letters.reply(call, fetch),
);

async function leave() {
  if (client.connected) await client.publishAsync(gone.topic, gone.payload, gone);
  await client.endAsync(!client.connected);
  process.exit(0);
}

let hasConnected = false;
client.on('connect', async () => {
  log('connected');
  hasConnected = true;
  await client.subscribeAsync([`${base}/in`, server], { qos: 1 });
  await client.publishAsync(gone.topic, packed(crypto.randomBytes(12), digest), gone);
});
client.on('close', () => {
  if (!hasConnected) fail(`there is no connection to ${given.broker}`);
  line.turnTo(null); // the call is forgotten, and comes again
});
client.on('error', (error) => log(error.message));
client.on('message', (topic, data) => {
  const over = topic === server && same(data, Buffer.concat([Buffer.from('over'), digest]));
  if (over && given.once && letters.worked) leave();
  if (topic !== server) try { line.take(data); } catch (error) { log(error.message); }
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, leave);
