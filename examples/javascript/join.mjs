// A device at a broker (docs/protocol.md, "At a broker"): frames, fetching, numbered letters, and what is on the disk.
//
//   node join.mjs --terms COMMAND --state FOLDER --broker mqtts://host:8883 --ca ca.crt --cert a.crt --key a.key [--once]
//
// FOLDER has device.key. COMMAND prints what follows from the study that the operator approved, as JSON; with an ask
// behind it what follows for that run: python -m experiments.plain_terms STUDY ROSTER STATES NAME.

import { execSync } from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { decode, encode } from "@msgpack/msgpack";
import mqtt from "mqtt";
import { Device } from "./device.mjs";
import { Refusal, VERSION, encoded, identityOf, must, packed, range, sha256, typed, unpacked } from "./parts.mjs";

const PIECE = 96 * 1024;
const MOST_BYTES = 2 ** 30;
const PIECES_AT_ONCE = 8;
const ASK_AGAIN_MS = 30_000;
const KEEP_MS = 30 * 24 * 3600 * 1000;
const DOES_NOT = "this device does not take part";
const EMPTY = Buffer.alloc(0);
const hex = (text) => Buffer.from(text, "hex");

const text = { type: "string" };
const { values: options } = parseArgs({
  options: {
    terms: text,
    state: text,
    broker: text,
    ca: text,
    cert: text,
    key: text,
    once: { type: "boolean", default: false },
  },
});
const told = (ask = "") =>
  JSON.parse(execSync(`${options.terms} ${ask}`, { maxBuffer: 2 ** 30, stdio: ["ignore", "pipe", "inherit"] }));
const terms = told();
const roster = Object.fromEntries(Object.entries(terms.roster).map(([name, key]) => [name, hex(key)]));
const secret = hex(fs.readFileSync(path.join(options.state, "device.key"), "ascii").trim());
const identity = identityOf(secret);
const server = hex(terms.server);
const digest = hex(terms.digest);
const say = (words) => console.error(`${terms.name}: ${words}`);

// -- the disk: nothing leaves before what it follows from is there

function save(file, data) {
  fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const handle = fs.openSync(`${file}.new`, "w", 0o600);
  fs.writeFileSync(handle, data);
  fs.fsyncSync(handle);
  fs.closeSync(handle);
  fs.renameSync(`${file}.new`, file);
  const folder = fs.openSync(path.dirname(file));
  fs.fsyncSync(folder);
  fs.closeSync(folder);
}

const RUNS = path.join(options.state, "runs");
const LEDGER = path.join(options.state, `${terms.digest}.json`);
const place = (run) => path.join(RUNS, run, "state");
const wipe = (run) => fs.rmSync(path.join(RUNS, run), { recursive: true, force: true });
const buffers = (v) =>
  v instanceof Uint8Array
    ? Buffer.from(v)
    : Array.isArray(v)
      ? v.map(buffers)
      : v && typeof v === "object"
        ? Object.fromEntries(Object.entries(v).map(([name, one]) => [name, buffers(one)]))
        : v;
const load = (run) => (fs.existsSync(place(run)) ? buffers(decode(fs.readFileSync(place(run)))) : null);
const ledger = fs.existsSync(LEDGER)
  ? JSON.parse(fs.readFileSync(LEDGER, "utf8"))
  : { contributions: [], questions: [] };

function record(ask, { statistic, alike, most }, run, questions) {
  const given = new Set(ledger.contributions.filter((one) => alike.includes(one.statistic)).map((one) => one.ask));
  must(given.has(ask) || given.size < most, "no more different asks than the study allows");
  const before = JSON.stringify(ledger);
  if (!ledger.contributions.some((one) => one.run === run)) ledger.contributions.push({ statistic, ask, run });
  ledger.questions = [...new Set([...ledger.questions, ...questions])];
  if (JSON.stringify(ledger) !== before) save(LEDGER, JSON.stringify(ledger));
}

for (const run of fs.existsSync(RUNS) ? fs.readdirSync(RUNS) : [])
  if (Date.now() - fs.statSync(path.join(RUNS, run)).mtimeMs > KEEP_MS) wipe(run);

// -- calls

function introduction([, version, challenge, from]) {
  must(from.equals(server), "the server is the one that the operator trusts");
  return [
    "introduction",
    terms.name,
    identity.public,
    identity.sign(packed("codedfl introduction v3", from, challenge, terms.name)),
  ];
}

const runs = new Map(); // by ask: what follows from the study for it

function following(ask) {
  const key = ask.toString("hex");
  try {
    if (!runs.has(key)) runs.set(key, told(key));
  } catch {
    throw new Refusal("a total follows from the study");
  }
  return runs.get(key);
}

function machine(asked, saved) {
  const brings = asked.X ? { rows: { X: asked.X, Y: asked.Y } } : { numbers: asked.numbers.map(BigInt) };
  const approved = {
    server,
    roster,
    pods: terms.pods,
    leastOwners: terms.least_owners,
    parameters: hex(asked.parameters),
    ...brings,
  };
  const device = new Device(terms.name, secret, approved, crypto.randomBytes, ledger.questions);
  if (saved)
    device.state = { ...saved.device, questions: [...new Set([...ledger.questions, ...saved.device.questions])] };
  return device;
}

function step([, , run, name, named, first, confirmed, , newest, letters]) {
  must(name === terms.name && run.length === 16 && first >= 0 && confirmed >= 0, "a step is for this device");
  const pending = load("pending");
  const saved = load(run.toString("hex")) ?? (pending?.run.equals(run) ? pending : null);
  if (!saved && newest.length && unpacked(newest)[2] === "finish") return ["parcel", 0, 0, "", EMPTY, []];
  must(saved || first === 0, "a run is one whose state is here");
  const ask = saved?.ask ?? named;
  must(!named.length || named.equals(ask), "a run is for one total");
  const asked = following(ask);
  const device = machine(asked, saved);
  const line = saved?.line ?? { first: 0, received: 0, waiting: [] };
  let [answer, refusal] = [EMPTY, ""];
  try {
    must(line.first <= confirmed && confirmed <= line.first + line.waiting.length, "what is confirmed was sent");
    must(first <= line.received, "no letter is missing");
    for (const [head, bulk] of letters.slice(line.received - first)) {
      const sent = device.receive(head, bulk);
      line.waiting.push(...sent.map((m) => [encoded({ ...m, attachment: EMPTY }), m.attachment]));
      line.received += 1;
    }
    line.waiting.splice(0, confirmed - line.first);
    line.first = confirmed;
    if (newest.length) answer = Buffer.concat(device.receive(newest).map(encoded));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    say(`refuses a message: ${error.message}`);
    refusal = DOES_NOT;
  }
  const { state } = device;
  must(!state.run || state.run.equals(run), "letters are of the run of their step");
  if (state.run && !state.refused) record(ask.toString("hex"), asked, run.toString("hex"), state.questions); // before the state, and so before any join or answer
  if (state.finished) [run.toString("hex"), "pending"].forEach(wipe);
  else if (state.run) {
    save(place(state.agreement ? run.toString("hex") : "pending"), encode({ run, ask, device: state, line }));
    if (state.agreement) wipe("pending");
  }
  return ["parcel", line.first, line.received, refusal, answer, line.waiting];
}

function replyTo(call) {
  if (call[0] === "dismissal") say(`cannot take part: ${String(call[1]).slice(0, 200)}`);
  try {
    must(["hello", "step"].includes(call[0]), "a call is a hello or a step");
    if (call[1] !== VERSION)
      return ["refused", `the protocol version must be ${VERSION} on this node, got ${Number(call[1])}`];
    return call[0] === "hello" ? introduction(typed(call, "sibb")) : step(typed(call, "sibsbiisbl"));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    say(`refuses: ${error.message}`);
    return ["refused", DOES_NOT];
  }
}

// -- what is large travels by pieces: a reference [SHA-256, size] stands in its place

let cargo = new Map(); // what the last reply refers to
let given = 0;
const wanted = new Map(); // what the call refers to, by digest: { size, here, asked }
const fetched = new Map();

function loaded(value) {
  if (value.length <= PIECE) return value;
  const name = sha256(value);
  cargo.set(name.toString("hex"), value);
  return [name, value.length];
}

function contents(value) {
  if (Buffer.isBuffer(value)) return value;
  const [name, size] = typed(value, "bi");
  must(name.length === 32 && size > PIECE && size <= MOST_BYTES, "a reference is to something large");
  const key = name.toString("hex");
  if (!fetched.has(key) && !wanted.has(key)) wanted.set(key, { size, here: new Map(), asked: new Map() });
  return fetched.get(key) ?? EMPTY;
}

function unfolded(call) {
  if (call[0] !== "step") return call;
  typed(call, "sibs?iis?l");
  const letters = call[9].map((letter) => typed(letter, "??").map(contents));
  return [...call.slice(0, 4), contents(call[4]), ...call.slice(5, 8), contents(call[8]), letters];
}

function askForPieces() {
  for (const [key, { size, here, asked }] of wanted) {
    const due = range(Math.ceil(size / PIECE)).filter((i) => !here.has(i) && !(asked.get(i) > Date.now()));
    const onTheWay = [...asked.values()].filter((until) => until > Date.now()).length;
    const pieces = due.slice(0, Math.max(0, PIECES_AT_ONCE - onTheWay));
    pieces.forEach((i) => asked.set(i, Date.now() + ASK_AGAIN_MS));
    if (pieces.length) send(packed("fetch", hex(key), pieces));
  }
}

function takePiece(name, index, data) {
  const part = wanted.get(name.toString("hex"));
  if (!part?.asked.delete(index) || data.length !== Math.min(PIECE, part.size - index * PIECE)) return;
  part.here.set(index, data);
  if (part.here.size < Math.ceil(part.size / PIECE)) return;
  const whole = Buffer.concat(range(part.here.size).map((i) => part.here.get(i)));
  if (!sha256(whole).equals(name)) return part.here.clear();
  wanted.delete(name.toString("hex"));
  fetched.set(name.toString("hex"), whole);
}

function givePieces(name, pieces) {
  const whole = cargo.get(name.toString("hex"));
  const most = 8 * [...cargo.values()].reduce((sum, one) => sum + Math.ceil(one.length / PIECE), 0);
  if (!whole || given >= most) return send(packed("gone", name));
  for (const i of pieces.slice(0, 64).filter((one) => one >= 0 && one * PIECE < whole.length)) {
    given += 1;
    send(packed("piece", name, i, whole.subarray(i * PIECE, (i + 1) * PIECE)));
  }
}

// -- frames

let current = null; // the newest call: { number, body }
let replied = { number: "", frame: EMPTY };
let worked = false;

function takeFrame(payload) {
  const frame = unpacked(payload);
  const [kind, number] = frame;
  if (kind === "call") {
    typed(frame, "ss?");
    if (number === replied.number) send(replied.frame);
    else current = { number, body: frame[2] };
  } else if (kind === "nudge") {
    typed(frame, "ss");
    if (number === replied.number) send(replied.frame);
    else if (number !== current?.number) send(packed("unknown", number));
  } else if (kind === "fetch") givePieces(...typed(frame, "sbl").slice(1));
  else if (kind === "piece") takePiece(...typed(frame, "sbib").slice(1));
  else if (kind === "gone" && wanted.delete(typed(frame, "sb")[1].toString("hex"))) current = null;
}

function work() {
  if (!current) return;
  let reply = ["refused", DOES_NOT];
  try {
    const body = contents(current.body);
    const call = wanted.size ? null : unfolded(unpacked(body));
    if (wanted.size) return askForPieces();
    worked ||= call[0] === "step";
    reply = replyTo(call);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    say(`refuses a call: ${error.message}`);
  }
  [cargo, given] = [new Map(), 0];
  [wanted, fetched].forEach((one) => one.clear());
  if (reply[0] === "parcel") [reply[4], reply[5]] = [loaded(reply[4]), reply[5].map((letter) => letter.map(loaded))];
  replied = { number: current.number, frame: packed("reply", current.number, loaded(packed(...reply))) };
  current = null;
  send(replied.frame);
}

// -- the connection: MQTT 5, clean, at least once

const topic = (what) => `codedfl/${terms.study}/${what}`;
const [inbox, outbox, here] = ["in", "out", "here"].map((what) => topic(`${terms.name}/${what}`));
const files = Object.fromEntries(
  ["ca", "cert", "key"].filter((one) => options[one]).map((one) => [one, fs.readFileSync(options[one])]),
);
const me = `${terms.name}-${terms.study}`;
const tag = sha256(`codedfl client id|${me}|`, files.key ?? "")
  .toString("hex")
  .slice(0, 32); // nobody else can guess it
const client = mqtt.connect(options.broker, {
  ...files,
  protocolVersion: 5,
  clientId: `${me}-${tag}`,
  clean: true,
  resubscribe: false,
  queueQoSZero: false,
  keepalive: 20,
  will: { topic: here, payload: EMPTY, qos: 1, retain: true },
});
const send = (frame) =>
  client.connected && client.publish(outbox, frame, { qos: 1, properties: { messageExpiryInterval: 60 } });
const leave = () => client.publish(here, EMPTY, { qos: 1, retain: true }, () => client.end());

client.on("connect", () =>
  client.subscribe([inbox, topic("server")], { qos: 1 }, (error) => {
    if (error) throw error;
    client.publish(here, packed(crypto.randomBytes(12), digest), { qos: 1, retain: true }); // who is seen is called
  }),
);
client.on("close", () => {
  current = null; // its number is forgotten: it will be called again
  wanted.forEach((part) => part.asked.clear());
});
client.on("message", (from, payload) => {
  if (from === topic("server")) {
    const over = payload.equals(Buffer.concat([Buffer.from("over"), digest]));
    if (over && worked && options.once) leave();
    return;
  }
  try {
    takeFrame(payload);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    say(`refuses a frame: ${error.message}`);
  }
  work();
});
client.on("error", (error) => say(error.message));
process.on("SIGTERM", leave);
