// The vectors of the specification: node vectors.mjs ../../spec/vectors. Every line is a part; the exit code counts failures.

import assert from "node:assert/strict";
import crypto from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import * as parts from "./parts.mjs";
import { Device } from "./device.mjs";

const hex = (text) => Buffer.from(text, "hex");
const shake = (label, outputLength = 32) => crypto.createHash("shake256", { outputLength }).update(label).digest();
const equal = (found, wanted) => assert.equal(Buffer.isBuffer(found) ? found.toString("hex") : found, wanted);

// What a server that lies signs in place of a message: each is refused, and changes nothing.
const flipped = (data, at = data.length - 1) =>
  Buffer.concat([data.subarray(0, at), Buffer.from([data[at] ^ 1]), data.subarray(at + 1)]);
const another = parts.identityOf(shake("another"));
const BEFORE = {
  invitation: ([server, key, parameters]) => [
    [another.public, key, parameters], // a stranger
    [server, Buffer.alloc(32), parameters], // a key that nothing can be sealed to
  ],
  agreement: ([run, invited, members, ...rest], name) => [
    [run, invited, members.map((m) => (m[0] === name ? m : [m[0], another.public, m[2], m[3]])), ...rest], // not on the roster
    [run, invited, members.map((m) => (m[0] === name ? [m[0], m[1], another.public, m[3]] : m)), ...rest], // not our run key
    [run, invited, members.toReversed(), ...rest],
    [flipped(run), invited, members, ...rest],
  ],
  "role-key-wanted": () => [["b"]], // of the other role
  "role-key": ([key, signature, envelope]) => [
    [key, flipped(signature), envelope],
    [another.public, signature, envelope],
  ],
  "role-keys": ([first, second]) => [
    [first],
    [[first[0], first[1].slice(1)], second],
    [[another.public, first[1]], second],
  ],
  share: ([commitments, envelope]) => [
    [commitments, flipped(envelope)],
    [[commitments[0], flipped(commitments[1])], envelope],
  ],
  owners: (list) => [
    list.slice(1),
    [list[0], ...list],
    list.toReversed(),
    list.map((one) => [one[0], flipped(one[1]), one[2]]),
  ],
  certificate: (signatures) => [signatures.slice(1), signatures.map(([name, one]) => [name, flipped(one)])],
  update: ([epoch, bits, numbers]) => [
    [0, bits, numbers],
    [epoch, bits, Buffer.alloc(numbers.length + 3)],
    [epoch, bits, Buffer.alloc(18, 255)],
  ],
};
const AFTER = {
  agreement: ([run, invited, members, theta, roles, ...rest]) => [
    [run, invited, members, theta, roles.map((one) => 1 - one), ...rest],
  ],
  owners: (list) => [list.map((one) => [one[0], one[1], flipped(one[2])])],
  update: ([epoch, bits, numbers]) => [
    [epoch, bits + 1, numbers],
    [epoch - 1, bits, numbers],
  ],
};

const CHECKS = {
  packing({ primes, numbers, packed }) {
    const planes = parts.onRing(numbers.map(BigInt), primes);
    equal(parts.pack(planes), packed);
    assert.deepEqual(parts.unpack(hex(packed), primes, numbers.length), planes);
    assert.throws(() => parts.unpack(hex("ffffff".repeat(primes.length)), primes, 1), parts.Refusal);
  },
  rounding({ bounds, owners, X, Y, fraction_bits: bits, limits, gram, constant }) {
    const [features, labels, samples, perDevice] = bounds;
    const s = parts.scales({
      features,
      labels,
      samples,
      perDevice,
      d: X[0].length,
      owners,
      primes: parts.primesFor(owners),
    });
    assert.deepEqual([s.featureBits, s.labelBits, s.gramBits, s.constantBits], bits);
    assert.deepEqual([s.limit, s.gramLimit, s.crossLimit].map(Number), limits);
    assert.deepEqual(
      parts.statistics(X, Y, s).map((one) => one.map((v) => v + 0)),
      [gram, constant],
    );
  },
  row_blocks({ d, blocks, entries }) {
    assert.deepEqual(
      parts.entries(d, blocks, parts.range(blocks)).flatMap(([, , places]) => places),
      entries,
    );
  },
  pads({ seed, run, primes, label, count, pair, packed, sha256 }) {
    const found = parts.pack(parts.pad(hex(seed), hex(run), label, count, primes, pair));
    equal(packed ? found : parts.sha256(found), packed ?? sha256);
  },
  sealing({ sender, receiver, fresh, context, plaintext, sealed, content_key: key, shake256, length, sha256 }) {
    if (key) return equal(parts.sha256(parts.encryptBulk(hex(key), hex(context), shake(shake256, length))), sha256);
    const to = parts.runPublic(hex(receiver));
    equal(parts.seal(hex(sender), to, hex(context), hex(plaintext), hex(fresh)), sealed);
    const open = (bound) => parts.openSealed(hex(receiver), parts.runPublic(hex(sender)), hex(bound), hex(sealed));
    equal(open(context), plaintext);
    return assert.throws(() => open("00"), parts.Refusal);
  },
  agreements({ run, parameters, invitation, seats, agreement, hash, seeds, commitments }) {
    const server = parts.identityOf(shake("server"));
    const invited = parts.packed(server.public, parts.runPublic(shake("server key")), hex(parameters));
    const nothing = Buffer.alloc(0);
    equal(
      parts.encoded(parts.signed(parts.message("invitation", hex(run), nothing, "", "", invited), server)),
      invitation,
    );
    parts.checkSigned(parts.decoded(hex(invitation)), server.public);
    const members = ["a", "b", "c", "d", "e"].map((name) => {
      const [identity, runKey] = [parts.identityOf(shake(name)), parts.runPublic(shake(`key ${name}`))];
      return {
        name,
        identity: identity.public,
        runKey,
        signature: identity.sign(parts.joinStatement(hex(run), invited, name, runKey)),
      };
    });
    const seated = parts.seated(members, hex(run));
    assert.deepEqual(
      seated.map((m) => m.name),
      seats,
    );
    const rows = seated.map((m) => [m.name, m.identity, m.runKey, m.signature]);
    equal(parts.packed(hex(run), invited, rows, nothing, [], [], []), agreement);
    equal(parts.readAgreement(hex(agreement)).hash, hash);
    const pairs = Object.entries(seeds).map(([purpose, seed]) => [purpose, hex(seed)]);
    equal(parts.packed(...parts.committed(pairs, hex(hash), "a", parts.identityOf(shake("a")))), commitments);
  },
  exchange({ name, server, parameters, pods, X, Y, messages }) {
    let drawn = 0;
    const liar = parts.identityOf(shake("server"));
    const roster = Object.fromEntries(pods.flat().map((one) => [one, parts.identityOf(shake(one)).public]));
    const terms = { server: hex(server), parameters: hex(parameters), roster, pods, leastOwners: 3, rows: { X, Y } };
    const make = (approved) => new Device(name, shake(name), approved, (length) => shake(`${name} ${drawn++}`, length));
    const refuses = (data) => {
      const [before, at] = [device.state, drawn];
      assert.throws(() => device.receive(data), parts.Refusal);
      assert.equal(device.state, before);
      drawn = at;
    };
    const lie = (m, body) => refuses(parts.encoded(parts.signed({ ...m, body: parts.packed(...body) }, liar)));
    const invitation = hex(messages[0].receives);
    const [refusal] = make({ ...terms, parameters: flipped(terms.parameters) }).receive(invitation);
    parts.checkSigned(refusal, roster[name]);
    assert.deepEqual([refusal.kind, refusal.body.toString()], ["refusal", "this device does not take part"]);
    drawn = 0;
    const device = make(terms);
    for (const { receives, sends } of messages) {
      const m = parts.decoded(hex(receives));
      const fields = m.body.length ? parts.unpacked(m.body) : [];
      for (const body of BEFORE[m.kind]?.(fields, name) ?? []) lie(m, body);
      for (const changed of [{ run: flipped(m.run) }, { receiver: "b" }].slice(m.kind === "invitation"))
        refuses(parts.encoded(parts.signed({ ...m, ...changed }, liar)));
      if (["invitation", "agreement", "role-key", "owners", "update", "finish"].includes(m.kind))
        refuses(parts.encoded(parts.signed(m, another)));
      assert.deepEqual(
        device.receive(hex(receives)).map((one) => parts.encoded(one).toString("hex")),
        sends,
      );
      if (m.kind === "invitation") lie(m, [fields[0], another.public, fields[2]]);
      for (const body of AFTER[m.kind]?.(fields) ?? []) lie(m, body);
      if (m.kind === "update" && fields[0] === 3) lie(m, [4, 0, Buffer.alloc(18)]); // a question more than agreed on
    }
    assert.deepEqual(Object.keys(device.state).sort(), ["agreement", "finished", "questions", "run"]); // no secret is left
  },
};

const folder = process.argv[2] ?? path.join(import.meta.dirname, "../../spec/vectors");
let failed = 0;
for (const file of readdirSync(folder).sort()) {
  const { protocol, part, cases } = JSON.parse(readFileSync(path.join(folder, file), "utf8"));
  if (part === "gradient_code") continue; // of the paper's scheme alone
  try {
    assert.equal(protocol, parts.VERSION);
    cases.forEach(CHECKS[part]);
    console.log(`${part}: ${cases.length} passed`);
  } catch (error) {
    failed += 1;
    console.log(`${part}: ${error.stack}`);
  }
}
process.exitCode = failed;
