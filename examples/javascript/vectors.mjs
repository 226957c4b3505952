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
const reseated = (run, members) =>
  parts
    .seated(
      members.map((m) => ({ m, runKey: m[2] })),
      run,
    )
    .map((one) => one.m);
const SIGNED = ["invitation", "agreement", "role-key", "owners", "update", "finish"];
const TOO_EARLY = {
  "role-keys": ["owners", "certificate", "update"],
  owners: ["certificate", "update"],
  certificate: ["update"],
};
const BEFORE = {
  invitation: ([server, key, parameters]) => [
    [another.public, key, parameters], // a stranger
    [server, Buffer.alloc(32), parameters], // a key that nothing can be sealed to
  ],
  agreement: ([run, invited, members, ...rest], { name }) => [
    [run, invited, members.map((m) => (m[0] === "b" ? [m[0], another.public, m[2], m[3]] : m)), ...rest], // not on the roster
    [
      run,
      invited,
      reseated(
        run,
        members.map((m) => (m[0] === name ? [m[0], m[1], another.public, m[3]] : m)),
      ),
      ...rest,
    ],
    [run, invited, members.toReversed(), ...rest],
    [flipped(run), invited, members, ...rest],
    [run, invited, members, Buffer.alloc(24), ...rest.slice(1)], // an initial model
    [run, invited, members, rest[0], [], [], []], // no roles
  ],
  "role-key-wanted": () => [["b"]], // of the other role
  "role-key": ([key, signature, envelope]) => [
    [key, flipped(signature), envelope],
    [another.public, signature, envelope],
  ],
  "role-keys": ([first, second], { agreed }) => [
    [first],
    [
      [first[0], [first[1][0], ["b", parts.identityOf(shake("b")).sign(parts.roleKeyStatement(agreed, 0, first[0]))]]],
      second,
    ],
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
  invitation: ([server, , parameters]) => [[server, another.public, parameters]],
  agreement: ([run, invited, members, theta, roles, ...rest]) => [
    [run, invited, members, theta, roles.map((one) => 1 - one), ...rest],
  ],
  owners: (list) => [list.map((one) => [one[0], one[1], flipped(one[2])])],
  update: ([epoch, bits, numbers]) => [
    [epoch, bits + 1, numbers],
    [epoch - 1, bits, numbers],
    ...(epoch === 3 ? [[4, bits, Buffer.alloc(18)]] : []), // a question more than agreed on
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
  pads({ seed, primes, label, count, pair, packed, sha256 }) {
    const found = parts.pack(parts.pad(hex(seed), label, count, primes, pair));
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
    const make = (approved) => {
      drawn = 0;
      return new Device(name, shake(name), approved, (length) => shake(`${name} ${drawn++}`, length));
    };
    const all = messages.map(({ receives }) => parts.decoded(hex(receives)));
    const signed = (m, changed, by = liar) => parts.encoded(parts.signed({ ...m, ...changed }, by));

    const [refusal] = make({ ...terms, parameters: flipped(terms.parameters) }).receive(hex(messages[0].receives));
    parts.checkSigned(refusal, roster[name]);
    assert.deepEqual([refusal.kind, refusal.body.toString()], ["refusal", "this device does not take part"]);

    const device = make(terms);
    const trying = (what) => {
      const [before, at] = [device.state, drawn];
      what();
      [device.state, drawn] = [before, at];
    };
    const refuses = (data) =>
      trying(() => {
        const before = device.state;
        assert.throws(() => device.receive(data), parts.Refusal);
        assert.equal(device.state, before);
      });
    const says = (data, kind) =>
      trying(() =>
        assert.deepEqual(
          device.receive(data).map((one) => one.kind),
          [kind],
        ),
      );
    const lie = (m, body) => refuses(signed(m, { body: parts.packed(...body) }));
    for (const [i, m] of all.entries()) {
      const fields = m.body.length ? parts.unpacked(m.body) : [];
      for (const body of BEFORE[m.kind]?.(fields, device) ?? []) lie(m, body);
      const elsewhere = [{ receiver: "b" }, { run: flipped(m.run) }, { agreement: shake("another") }];
      for (const changed of elsewhere.slice(0, { invitation: 1, agreement: 2 }[m.kind])) refuses(signed(m, changed));
      refuses(parts.packed("codedfl", parts.VERSION + 1, ...parts.unpacked(hex(messages[i].receives)).slice(2)));
      if (SIGNED.includes(m.kind)) refuses(signed(m, {}, another));
      for (const early of i > 1 ? all.slice(i + 1).filter((one) => TOO_EARLY[m.kind]?.includes(one.kind)) : [])
        refuses(signed(early, {}));
      if (m.kind === "role-key") {
        const bound = [parts.runPublic(device.state.key), parts.context(m), shake("another"), shake("fresh")];
        says(
          signed(m, { body: parts.packed(fields[0], fields[1], parts.seal(shake(`${m.sender} 0`), ...bound)) }),
          "complaint",
        );
      }
      if (m.kind === "owners") {
        device.terms = { ...terms, leastOwners: 5 };
        refuses(signed(m, {}));
        device.terms = terms;
        refuses(signed(m, { kind: "roll-call", body: Buffer.alloc(0) }, another));
        says(signed(m, { kind: "roll-call", body: Buffer.alloc(0) }), "holds");
      }
      const sent = device.receive(hex(messages[i].receives));
      assert.deepEqual(
        sent.map((one) => parts.encoded(one).toString("hex")),
        messages[i].sends,
      );
      for (const body of AFTER[m.kind]?.(fields) ?? []) lie(m, body);
    }
    assert.deepEqual(Object.keys(device.state).sort(), ["agreement", "finished", "questions", "run"]); // no secret is left

    // Commitments of an owner that it has not signed, in a share that it sealed.
    const fakeShare = (to) => {
      const [seed, nothing, purpose] = [shake("a seed"), Buffer.alloc(0), `role-${to.role}`];
      const fake = [[[purpose, parts.commitment(seed, to.agreed.hash, "d", purpose)]], Buffer.alloc(64)];
      const bound = [parts.runPublic(to.state.roleKey), to.seedContext("d", to.role, fake)];
      const secrets = parts.packed(nothing, seed, nothing, nothing);
      return [fake, parts.seal(shake("d 0"), ...bound, secrets, shake("fresh"))];
    };
    const isFake = (m) => m.kind === "share" && m.sender === "d";
    const kinds = (sent) => sent.map((one) => one.kind);

    // Listed, and by a list that the owner has not signed: a complaint, and nothing made of the sums leaves.
    const first = make(terms);
    let list;
    for (const m of all.slice(0, kinds(all).indexOf("certificate"))) {
      if (m.kind === "owners") {
        const digest = parts.sha256(parts.packed(...fakeShare(first)[0]));
        list = parts.packed(...parts.unpacked(m.body).map((one) => (one[0] === "d" ? ["d", digest, one[2]] : one)));
        first.receive(signed(m, { body: list }));
      } else first.receive(isFake(m) ? signed(m, { body: parts.packed(...fakeShare(first)) }) : parts.encoded(m));
    }
    const statement = parts.listStatement(first.agreed, list);
    const signatures = ["a", "b", "c"].map((one) => [one, parts.identityOf(shake(one)).sign(statement)]);
    const certificate = all.find((m) => m.kind === "certificate");
    assert.deepEqual(kinds(first.receive(signed(certificate, { body: parts.packed(...signatures) }))), ["complaint"]);
    assert.ok(!first.state.matrix);

    // Not those of the list that was signed before they came: a complaint, and the seed is not taken.
    const second = make(terms);
    for (const m of all.slice(0, kinds(all).indexOf("certificate"))) if (!isFake(m)) second.receive(parts.encoded(m));
    const share = signed(all.find(isFake), { body: parts.packed(...fakeShare(second)) });
    assert.deepEqual(kinds(second.receive(share)), ["complaint"]);
    assert.ok(!second.state.seeds[second.seatOf("d")]);
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
