// A device of role keys as a state machine: an owner of rows and a holder of a role (docs/protocol.md, "Role keys").
// It does no I/O. Its state is plain values, so that whoever drives it can save it before anything leaves.

import * as parts from "./parts.mjs";
import { must, packed, range, sha256, unpacked, verify } from "./parts.mjs";

const REFUSES = Buffer.from("this device does not take part");
const role = (r) => `role-${r}`;
const same = (a, b) => Buffer.compare(a, b) === 0;

export class Device {
  // terms: what the operator approved: server, roster, pods, leastOwners, parameters, and what the device brings
  // (rows {X, Y}, or numbers); answered: digests of the questions answered in earlier runs on the same terms.
  constructor(name, secret, terms, random, answered = []) {
    Object.assign(this, { name, terms, random, identity: parts.identityOf(secret) });
    this.state = { questions: answered, seeds: {}, commitments: {}, answered: [0, "", ""] };
  }

  get agreed() {
    must(this.state.agreement, "an agreement comes first");
    if (this.read?.[0] !== this.state.agreement)
      this.read = [this.state.agreement, parts.readAgreement(this.state.agreement)];
    return this.read[1];
  }

  get seat() {
    return this.seatOf(this.name);
  }

  get role() {
    return this.agreed.roles[this.seat];
  }

  seatOf(name) {
    const seat = this.agreed.names.indexOf(name);
    must(seat >= 0, "a device is one of this run");
    return seat;
  }

  // A message in, messages out. What is refused changes nothing.
  receive(data, bulk) {
    const { invited } = this.state;
    const p = invited && parts.readParameters(unpacked(invited)[2]);
    must(
      data.length + (bulk?.length ?? 0) <= 2 ** 16 + (p ? 9 * p.d * p.outputs + 2 ** 25 : 0),
      "a message is not too long",
    );
    const m = parts.decoded(data, bulk);
    must(Object.hasOwn(HANDLERS, m.kind), "a device is sent what is for devices");
    must(["", this.name].includes(m.receiver), "a message is for this device");
    const before = this.state;
    if (m.kind !== "invitation") {
      must(before.run && same(m.run, before.run), "a message is of this run");
      const known = before.agreement ? this.agreed.hash : Buffer.alloc(0);
      must(m.kind === "agreement" || same(m.agreement, known), "a message is of the agreement accepted here");
      if (before.finished) return [];
    }
    this.state = { ...before };
    try {
      return HANDLERS[m.kind].call(this, m) ?? [];
    } catch (error) {
      this.state = before;
      throw error instanceof parts.Refusal ? error : new parts.Refusal(`a message is well-formed (${error.message})`);
    }
  }

  fromServer(m) {
    parts.checkSigned(m, this.terms.server);
  }

  header(kind, receiver = "", sender = this.name) {
    return parts.message(kind, this.state.run, this.agreed.hash, sender, receiver);
  }

  sealed(kind, plaintext) {
    const header = this.header(kind);
    const serverKey = unpacked(this.state.invited, "bbb")[1];
    return {
      ...header,
      body: parts.seal(this.state.key, serverKey, parts.context(header), plaintext, this.random(32)),
    };
  }

  // -- coming into a run

  onInvitation(m) {
    const [server, serverKey, parameters] = unpacked(m.body, "bbb");
    const s = this.state;
    must(same(server, this.terms.server), "the server is the one that the operator trusts");
    this.fromServer(m);
    must(!s.run || (same(s.run, m.run) && same(s.invited, m.body)), "one run, one invitation");
    if (s.agreement) return [];
    must(m.run.length === 16, "a run id has 16 bytes");
    s.key ??= this.random(32);
    parts.exchange(s.key, serverKey); // fails for a key that nothing can be sealed to
    [s.run, s.invited] = [m.run, m.body];
    const nothing = Buffer.alloc(0);
    if (!same(parameters, this.terms.parameters)) {
      s.refused = true;
      return [
        parts.signed(
          parts.message("refusal", m.run, nothing, this.name, "", REFUSES, this.identity.public),
          this.identity,
        ),
      ];
    }
    const key = parts.runPublic(s.key);
    const signature = this.identity.sign(parts.joinStatement(m.run, m.body, this.name, key));
    return [parts.message("join", m.run, nothing, this.name, "", key, this.identity.public, signature)];
  }

  onAgreement(m) {
    this.fromServer(m);
    const { state, terms } = this;
    if (state.agreement) {
      must(same(state.agreement, m.body), "a device accepts one agreement per run");
      return [];
    }
    must(!state.refused, "a device that does not take part accepts no agreement");
    state.agreement = m.body;
    const agreed = this.agreed;
    must(
      same(agreed.run, state.run) && same(agreed.invited, state.invited),
      "it is for the invitation that was joined",
    );
    const me = agreed.members[this.seat];
    must(same(me.runKey, parts.runPublic(state.key)), "it carries this device's run key");
    must(same(me.identity, this.identity.public), "it carries this device's identity");
    for (const { name, identity } of agreed.members)
      must(
        Object.hasOwn(terms.roster, name) && same(terms.roster[name], identity),
        "everybody is on the roster, with its key",
      );
    const inPods = new Set(terms.pods.flat());
    must(
      agreed.names.every((name, i) => agreed.owners.includes(i) === inPods.has(name)),
      "owners are those in the pods",
    );
    must(agreed.roles.length, "role keys have roles");
  }

  // -- the key of this device's role

  checkRoleKey(of, key, signer, signature) {
    const seat = this.seatOf(signer);
    must(this.agreed.roles[seat] === of, "the key of a role is signed by its holders");
    verify(this.agreed.members[seat].identity, parts.roleKeyStatement(this.agreed, of, key), signature);
  }

  onRoleKeyWanted(m) {
    const { state, agreed } = this;
    if (this.role < 0 || (state.matrix && !state.roleKey)) return [];
    const members = unpacked(m.body).map((name) => agreed.members[this.seatOf(name)]);
    for (const member of members) {
      must(agreed.roles[this.seatOf(member.name)] === this.role && member.name !== this.name, "to co-holders only");
      verify(
        member.identity,
        parts.joinStatement(agreed.run, agreed.invited, member.name, member.runKey),
        member.signature,
      );
    }
    state.roleKey ??= this.random(32);
    const envelopes = members.map(({ name, runKey }) => {
      const bound = parts.context(this.header("role-key", name));
      return [name, parts.seal(state.key, runKey, bound, state.roleKey, this.random(32))];
    });
    const key = parts.runPublic(state.roleKey);
    const signature = this.identity.sign(parts.roleKeyStatement(agreed, this.role, key));
    return [parts.signed({ ...this.header("role-key"), body: packed(key, signature, envelopes) }, this.identity)];
  }

  onRoleKey(m) {
    this.fromServer(m);
    const { state, agreed } = this;
    const [key, signature, envelope] = unpacked(m.body, "bbb");
    if (this.role < 0 || state.matrix) return [];
    this.checkRoleKey(this.role, key, m.sender, signature);
    try {
      const found = parts.openSealed(
        state.key,
        agreed.members[this.seatOf(m.sender)].runKey,
        parts.context(m),
        envelope,
      );
      must(found.length === 32 && same(parts.runPublic(found), key), "the private half of what was signed");
      state.roleKey = found;
    } catch (error) {
      if (!(error instanceof parts.Refusal)) throw error;
      return [this.sealed("complaint", packed(m.sender, "no key of its role"))];
    }
    const mine = this.identity.sign(parts.roleKeyStatement(agreed, this.role, key));
    return [{ ...this.header("role-key-held"), body: packed(key, mine) }];
  }

  // -- the upload

  onRoleKeys(m) {
    const { state, agreed } = this;
    if (state.used || !agreed.owners.includes(this.seat)) return [];
    const keys = unpacked(m.body).map((one) => parts.typed(one, "bl"));
    must(keys.length === agreed.p.colluders + 1, "there is a key for every role");
    keys.forEach(([key, signatures], r) => {
      for (const one of signatures) this.checkRoleKey(r, key, ...parts.typed(one, "sb"));
      const holders = agreed.roles.filter((one) => one === r).length;
      const signers = new Set(signatures.map(([name]) => name)).size;
      must(signers >= Math.min(keys.length, holders), "one honest holder has it at least");
    });
    return this.upload(keys.map(([key]) => key));
  }

  statistics() {
    const { p, primes, owners } = this.agreed;
    const { rows, numbers } = this.terms;
    if (p.totalLimit) return [[0], numbers];
    const fit = (values, bound) =>
      values.slice(0, p.perDevice).map((row) => row.map((v) => Math.max(-bound, Math.min(bound, v))));
    const scales = parts.scales({ ...p, owners: p.owners || owners.length, primes });
    return parts.statistics(fit(rows.X, p.features), fit(rows.Y, p.labels), scales);
  }

  upload(keys) {
    const { state, agreed } = this;
    const { p, primes, nBlocks } = agreed;
    must(p.colluders > 0, "with z = 0 the upload is sealed, which this device does not do");
    const seeds = keys.map(() => this.random(32));
    const [triangle, numbers] = this.statistics();
    const start = (i) => i * p.d - (i * (i - 1)) / 2;
    const places = parts.entries(p.d, nBlocks, range(nBlocks)).flatMap(([, , found]) => found);
    let gram = parts.onRing(
      places.map(([i, j]) => triangle[start(i) + j - i]),
      primes,
    );
    let constant = parts.onRing(numbers, primes);
    for (const seed of seeds) {
      const [onGram, onConstant] = parts.pads(seed, agreed, range(nBlocks));
      [gram, constant] = [parts.add(gram, onGram, primes), parts.add(constant, onConstant, primes)];
    }
    const commitments = parts.committed(
      seeds.map((seed, r) => [role(r), seed]),
      agreed.hash,
      this.name,
      this.identity,
    );
    const nothing = Buffer.alloc(0);
    const envelopes = seeds.map((seed, r) => {
      const bound = this.seedContext(this.name, r, commitments);
      return [role(r), parts.seal(state.key, keys[r], bound, packed(nothing, seed, nothing, nothing), this.random(32))];
    });
    const bulk = Buffer.concat([parts.pack(gram), parts.pack(constant)]);
    const body = packed(commitments, nothing, envelopes);
    state.used = true;
    state.commitments = { ...state.commitments, [this.seat]: packed(...commitments) };
    const sent = parts.signed({ ...this.header("shares"), body, attachment: bulk }, this.identity);
    return [sent, ...(this.role >= 0 ? this.take(this.seat, seeds[this.role], commitments) : [])];
  }

  seedContext(owner, r, commitments) {
    return Buffer.concat([parts.context(this.header("share", role(r), owner)), sha256(packed(...commitments))]);
  }

  // -- seeds of this device's role

  onShare(m) {
    const { state, agreed } = this;
    const seat = this.seatOf(m.sender);
    must(this.role >= 0 && agreed.owners.includes(seat), "owners share with holders");
    if (state.seeds[seat] || state.matrix) return [];
    const [commitments, envelope] = unpacked(m.body, "lb");
    const [pairs] = parts.typed(commitments, "lb");
    pairs.forEach((pair) => parts.typed(pair, "sb"));
    must(state.roleKey, "the key of a role comes before what is sealed to it");
    const opened = parts.openSealed(
      state.roleKey,
      agreed.members[seat].runKey,
      this.seedContext(m.sender, this.role, commitments),
      envelope,
    );
    let reason = "malformed secrets"; // sealed by its sender: what is wrong from here on is the sender's doing
    try {
      const secrets = unpacked(opened, "bbbb");
      must(
        secrets.every((one) => [0, 32].includes(one.length)),
        "a secret has 0 or 32 bytes",
      );
      reason = "a seed that does not fit its commitment";
      return this.take(seat, secrets[1], commitments);
    } catch (error) {
      if (!(error instanceof parts.Refusal)) throw error;
      return [this.sealed("complaint", packed(m.sender, reason))];
    }
  }

  take(seat, seed, commitments) {
    const { state, agreed } = this;
    const owner = agreed.names[seat];
    const digest = commitments[0].find(([purpose]) => purpose === role(this.role))?.[1];
    must(
      seed.length && digest && same(digest, parts.commitment(seed, agreed.hash, owner, role(this.role))),
      "a seed fits its commitment",
    );
    const known = packed(...commitments);
    const listed = this.listed().find(([name]) => name === owner);
    must(!listed || same(listed[1], sha256(known)), "the commitments are those listed");
    state.seeds = { ...state.seeds, [seat]: seed };
    state.commitments = { ...state.commitments, [seat]: known };
    const complete = agreed.owners.every((j) => state.seeds[j]);
    return [...(complete || state.called ? [this.holds()] : []), ...this.finishSums()];
  }

  holds() {
    const names = this.agreed.names.filter((_, j) => this.state.seeds[j]);
    return this.sealed("holds", packed(...names));
  }

  onRollCall(m) {
    this.fromServer(m);
    if (this.role < 0 || this.state.matrix) return [];
    this.state.called = true;
    return [this.holds()];
  }

  // -- one list of owners, and its certificate

  listed() {
    return this.state.owners ? unpacked(this.state.owners) : [];
  }

  onOwners(m) {
    this.fromServer(m);
    const { state, terms, agreed } = this;
    must(!state.owners || same(state.owners, m.body), "a device signs one list per run");
    const list = unpacked(m.body).map((one) => parts.typed(one, "sbb"));
    const names = list.map(([name]) => name);
    const seats = names.map((name) => this.seatOf(name));
    must(
      seats.every((seat, i) => agreed.owners.includes(seat) && !(seat <= seats[i - 1])),
      "owners, each once and in order",
    );
    must(list.length >= Math.max(agreed.p.colluders + 2, terms.leastOwners), "a total is never of few");
    for (const pod of terms.pods) {
      const there = pod.filter((name) => names.includes(name)).length;
      must(there === 0 || there === pod.length, "a list is a union of whole pods");
    }
    must(!names.includes(this.name) || state.used, "this device is listed as it has uploaded");
    list.forEach(([, digest], i) => {
      const known = state.commitments[seats[i]];
      must(!known || same(sha256(known), digest), "a list has the commitments known here");
    });
    state.owners = m.body;
    const signature = this.identity.sign(parts.listStatement(agreed, m.body));
    return [{ ...this.header("signature"), body: packed(parts.listDigest(m.body), signature) }];
  }

  onCertificate(m) {
    const { state, agreed } = this;
    must(state.owners, "a list comes before its certificate");
    if (state.vouched) return [];
    const signatures = new Map(unpacked(m.body).map((one) => parts.typed(one, "sb")));
    const statement = parts.listStatement(agreed, state.owners);
    for (const [name, signature] of signatures)
      verify(agreed.members[this.seatOf(name)].identity, statement, signature);
    const needed = Math.floor((agreed.members.length + agreed.p.colluders) / 2) + 1;
    must(signatures.size >= needed, "more than (D + z)/2 devices signed it");
    state.vouched = [...new Set([...signatures.keys(), this.name])];
    return this.finishSums();
  }

  // Nothing made of the sums leaves before the list is certified; then they are over the list.
  finishSums() {
    const { state, agreed } = this;
    const seats = this.listed().map(([name]) => this.seatOf(name));
    if (this.role < 0 || !state.vouched || state.matrix || !seats.every((j) => state.seeds[j])) return [];
    for (const j of seats) {
      const { name, identity } = agreed.members[j];
      if (state.vouched.includes(name)) continue;
      const [pairs, signature] = unpacked(state.commitments[j], "lb");
      try {
        verify(identity, parts.commitmentStatement(pairs, agreed.hash, name), signature);
      } catch {
        [state.seeds, state.commitments] = [
          { ...state.seeds, [j]: null },
          { ...state.commitments, [j]: null },
        ];
        return [this.sealed("complaint", packed(name, "a seed that does not fit its commitment"))];
      }
    }
    const sums = seats.map((j) => parts.pads(state.seeds[j], agreed, parts.keptBlocks(agreed, this.seat)));
    const total = (which) => parts.pack(sums.map((one) => one[which]).reduce((a, b) => parts.add(a, b, agreed.primes)));
    [state.matrix, state.constant] = [total(0), total(1)];
    return [this.sealed("ready", Buffer.alloc(0))];
  }

  // -- epochs

  onUpdate(m) {
    this.fromServer(m);
    const { state, agreed } = this;
    const { p, primes, nBlocks } = agreed;
    const [epoch, , numbers] = unpacked(m.body, "iib");
    const [digest, question] = [sha256(m.body), sha256(numbers).toString("hex")];
    const [lastEpoch, lastDigest, lastAnswer] = state.answered;
    if (epoch === lastEpoch && epoch > 0) {
      must(same(digest, lastDigest), "an epoch is answered for one update only");
      return [this.sealed("answer", lastAnswer)];
    }
    must(epoch > lastEpoch && state.matrix, "epochs go up, after sharing");
    let answer = state.constant;
    if (numbers.length) {
      const anew = !state.questions.includes(question);
      must(!anew || state.questions.length < p.epochs - 1, "no more different questions than were agreed on");
      if (anew) state.questions = [...state.questions, question];
      const kept = parts.keptBlocks(agreed, this.seat);
      const e = parts.unpack(numbers, primes, p.d * p.outputs);
      const matrix = parts.unpack(state.matrix, primes, state.matrix.length / 3 / primes.length);
      const shape = { d: p.d, blocks: nBlocks, kept, outputs: p.outputs };
      answer = parts.pack(primes.map((prime, k) => parts.rowsTimes(matrix[k], e[k], { ...shape, p: prime })));
      [state.seeds, state.roleKey] = [{}, null]; // when a second is asked, the first is decoded
    }
    state.answered = [epoch, digest, packed(epoch, digest, answer)];
    return [this.sealed("answer", state.answered[2])];
  }

  onFinish(m) {
    this.fromServer(m);
    this.state = {
      run: this.state.run,
      agreement: this.state.agreement,
      questions: this.state.questions,
      finished: true,
    };
  }
}

const HANDLERS = {
  invitation: Device.prototype.onInvitation,
  agreement: Device.prototype.onAgreement,
  "role-key-wanted": Device.prototype.onRoleKeyWanted,
  "role-key": Device.prototype.onRoleKey,
  "role-keys": Device.prototype.onRoleKeys,
  share: Device.prototype.onShare,
  "roll-call": Device.prototype.onRollCall,
  owners: Device.prototype.onOwners,
  certificate: Device.prototype.onCertificate,
  update: Device.prototype.onUpdate,
  finish: Device.prototype.onFinish,
};
