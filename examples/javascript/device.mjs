// The state machine of a device of role keys: the page's section "A device".
//
// `receive` takes the state of a run and a message, and returns the next state and the messages to send. No state is
// changed in place: a handler returns what becomes different, so a refusal, which is any exception, changes nothing.

import * as wire from './messages.mjs';
import { bytes, list, listOf, packed, text, unpacked, whole } from './messages.mjs';
import { constantPieces, entries, pack, product, rowsFrom, statistics, toPlanes, unpack, zeros } from './numbers.mjs';
import {
  addPad, agreedSecret, EMPTY, hex, identityOf, must, openSealed, publicOf, same, seal, sha256, sign, verify,
} from './secrets.mjs';

export const NO_PART = 'this device does not take part';
const SIGNED = ['invitation', 'agreement', 'role-key', 'roll-call', 'owners', 'update', 'finish'];
const SHARING = ['role-key-wanted', 'role-key', 'role-keys', 'share', 'roll-call', 'certificate'];
const NAMES = ['agreement', 'role-key-wanted', 'role-key', 'role-keys', 'owners', 'certificate'];
const INVITATION = list(bytes, bytes, bytes);
const SIGNATURES = listOf(list(text, bytes));

/** Of a run that nothing is known of. Seeds and commitments are by seat; gram and constant are sums of pads, packed. */
export const NOTHING = Object.freeze({
  run: EMPTY, invited: EMPTY, key: EMPTY, agreement: EMPTY, roleKey: EMPTY, seeds: [], commitments: [], called: false,
  owners: EMPTY, certificate: EMPTY, gram: EMPTY, constant: EMPTY,
  epoch: 0, update: EMPTY, answer: null, question: EMPTY,
});

/** A function of bytes, computed once per Uint8Array: what follows from a part of the state is not kept in it. */
function remembered(make) {
  const known = new WeakMap();
  return (of, ...more) => known.get(of) ?? known.set(of, make(of, ...more)).get(of);
}
const agreementOf = remembered(wire.readAgreement);
const matrixOf = remembered((gram, agreed, kept) => {
  const [{ d }, { primes, nBlocks }] = [agreed.p, agreed];
  const count = entries(d, nBlocks, kept).reduce((sum, one) => sum + one.count, 0);
  return unpack(gram, primes, count).map((plane) => rowsFrom(plane, d, nBlocks, kept));
});

/** Whether rows, or what they are agreed to be, are still to be looked at: until the one upload of an owner. */
export function needsRows(device, { agreement, commitments }) {
  if (!agreement.length) return true;
  const { owners, seat } = agreementOf(agreement);
  return owners.includes(device.name) && !commitments[seat(device.name)];
}

const isReady = (state) => state.gram.length > 0;

/**
 * [state, messages], and no state where nothing of the run is to be kept. A device is what its operator approved: name,
 * secret, server, roster (a Map), pods, leastOwners; random; and questions(), a Set of digests of every e answered in
 * this study.
 * `terms` follow from what the run was asked for: parameters, and X and Y or numbers.
 */
export function receive(device, state, data, terms) {
  const found = wire.decode(data);
  must(data.length <= mostBytes(device, state, found.kind), 'a message is no longer than its numbers and names need');
  must(['', device.name].includes(found.receiver), 'a message is for this device');
  if (SIGNED.includes(found.kind)) verify(device.server, wire.signedPart(found), found.signature);
  must(found.kind === 'invitation' || same(found.run, state.run), 'a message is of this run');
  const agreed = state.agreement.length ? agreementOf(state.agreement) : null;
  if (!['invitation', 'agreement'].includes(found.kind)) {
    must(agreed && same(found.agreement, agreed.hash), 'a message is of this agreement');
  }
  if (found.kind === 'invitation' ? agreed : isReady(state) && SHARING.includes(found.kind)) return [state, []]; // late
  must(Object.hasOwn(HANDLERS, found.kind), 'a kind of message that is known here');
  const [different, sends] = HANDLERS[found.kind](device, { ...state, agreed }, found, terms);
  return [different && { ...state, ...different }, sends];
}

/** The page's table of limits. */
function mostBytes({ roster }, { run, invited }, kind) {
  if (!run.length) return 65536;
  const { d, outputs } = wire.readParameters(unpacked(invited, INVITATION)[2]);
  return 65536 + ({ agreement: 8, update: 9 }[kind] ?? 0) * d * outputs + (NAMES.includes(kind) ? 512 * roster.size : 0);
}

const message = (device, state, kind, fields) => ({
  kind, run: state.run, agreement: state.agreed?.hash ?? EMPTY, sender: device.name, receiver: '',
  body: EMPTY, attachment: EMPTY, signature: EMPTY, ...fields,
});

function sealed(device, state, kind, receiver, key, plaintext) {
  const blank = message(device, state, kind, { receiver });
  return { ...blank, body: seal(state.key, key, wire.context(blank), plaintext, device.random(32)) };
}
const toServer = (device, state, kind, plaintext) => sealed(
  device, state, kind, '', unpacked(state.invited, INVITATION)[1], plaintext);
const complaint = (device, state, accused, reason) => toServer(device, state, 'complaint', packed(accused, reason));

const HANDLERS = {
  /** Join, if server and parameters are those approved; one run each, with one key. */
  invitation(device, state, found, terms) {
    const [server, serverKey, parameters] = unpacked(found.body, INVITATION);
    must(same(server, device.server) && found.run.length === 16, 'the server is the one that the operator trusts');
    const first = !state.run.length;
    must(first || (same(state.run, found.run) && same(state.invited, found.body)), 'one run, one invitation');
    const key = first ? device.random(32) : state.key;
    agreedSecret(key, serverKey); // the server's run key is one that can be sealed to
    const attachment = identityOf(device.secret);
    if (first && !(same(parameters, terms.parameters) && wire.readParameters(parameters))) {
      const refusal = message(device, { run: found.run }, 'refusal', { body: Buffer.from(NO_PART), attachment });
      return [undefined, [wire.signed(refusal, device.secret)]];
    }
    const body = publicOf(key);
    const signature = sign(device.secret, wire.joinStatement(found.run, found.body, device.name, body));
    const join = message(device, { run: found.run }, 'join', { body, attachment, signature });
    return [{ run: found.run, invited: found.body, key }, [join]];
  },

  /** One agreement per run, for the invitation that was joined, with the keys of the roster in it. */
  agreement(device, state, found) {
    must(!state.agreement.length || same(state.agreement, found.body), 'one agreement per run');
    const agreed = agreementOf(found.body);
    must(same(agreed.run, state.run) && same(agreed.invited, state.invited), 'for the invitation that was joined');
    must(same(agreed.member(device.name).runKey, publicOf(state.key)), "it carries this device's run key");
    for (const { name, identity } of agreed.members) {
      must(device.roster.has(name) && same(device.roster.get(name), identity), 'everybody is on the roster');
      must(agreed.owners.includes(name) === device.pods.flat().includes(name), 'the owners are those in the pods');
    }
    return [{ agreement: found.body }, []];
  },

  /** Draw the key of this device's role, unless it has one, and seal the private half to these co-holders. */
  'role-key-wanted'(device, state, found) {
    const { agreed } = state;
    const role = agreed.role(device.name);
    const roleKey = state.roleKey.length ? state.roleKey : device.random(32);
    must(role >= 0, 'a holder draws the key of its role');
    const envelopes = unpacked(found.body, listOf(text)).map((name) => {
      must(agreed.role(name) === role && name !== device.name, 'to co-holders only');
      return [name, sealed(device, state, 'role-key', name, agreed.member(name).runKey, roleKey).body];
    });
    const body = packed(...signedRoleKey(device, agreed, roleKey), envelopes);
    return [{ roleKey }, [wire.signed(message(device, state, 'role-key', { body }), device.secret)]];
  },

  /** The key of this device's role, from a co-holder; who has it signs it too. */
  'role-key'(device, state, found) {
    const { agreed } = state;
    const [key, signature, envelope] = unpacked(found.body, list(bytes, bytes, bytes));
    must(agreed.role(device.name) >= 0, 'a holder is given the key of its role');
    wire.checkRoleKey(agreed, agreed.role(device.name), key, found.sender, signature);
    let roleKey;
    try {
      roleKey = openSealed(state.key, agreed.member(found.sender).runKey, wire.context(found), envelope);
      must(same(publicOf(roleKey), key), 'the private half of what was signed');
    } catch {
      return [{}, [complaint(device, state, found.sender, 'no key of its role')]];
    }
    const body = packed(...signedRoleKey(device, agreed, roleKey));
    return [{ roleKey }, [message(device, state, 'role-key-held', { body })]];
  },

  /** Upload once, to keys that min(z + 1, holders) holders of each role have signed. */
  'role-keys'(device, state, found, terms) {
    const { agreed, owners } = state;
    const keys = unpacked(found.body, listOf(list(bytes, SIGNATURES)));
    const tooLate = owners.length && !listed(owners).some(([name]) => name === device.name);
    if (state.commitments[agreed.seat(device.name)] || !agreed.owners.includes(device.name) || tooLate) return [{}, []];
    must(keys.length === agreed.p.colluders + 1, 'a key for every role');
    keys.forEach(([key, signatures], role) => {
      for (const [name, signature] of signatures) wire.checkRoleKey(agreed, role, key, name, signature);
      const least = Math.min(keys.length, agreed.roles.filter((one) => one === role).length);
      must(new Map(signatures).size >= least, 'one honest holder has it at least');
    });
    return upload(device, state, terms, keys.map(([key]) => key));
  },

  /** A seed of this device's role, which its owner sealed to the role's key together with its commitments. */
  share(device, state, found) {
    const [{ agreed }, owner] = [state, found.sender];
    const purpose = `role-${agreed.role(device.name)}`;
    must(agreed.owners.includes(owner), 'owners share with holders');
    const [commitments, envelope] = unpacked(found.body, list(wire.COMMITMENTS, bytes));
    const bound = wire.seedContext(agreed, owner, purpose, commitments);
    const opened = openSealed(state.roleKey, agreed.member(owner).runKey, bound, envelope);
    let seed;
    try {
      const secrets = unpacked(opened, list(bytes, bytes, bytes, bytes));
      must(secrets.every((one) => [0, 32].includes(one.length)), 'four secrets');
      seed = secrets[1];
    } catch {
      return [{}, [complaint(device, state, owner, 'malformed secrets')]];
    }
    must(same(state.seeds[agreed.seat(owner)] ?? seed, seed), 'owners share once');
    const entry = listed(state.owners).find(([name]) => name === owner);
    if (!wire.fits(commitments, agreed, owner, purpose, seed)
      || (entry && !same(entry[1], sha256(packed(...commitments))))) {
      return [{}, [complaint(device, state, owner, UNFIT)]];
    }
    return take(device, state, owner, seed, commitments);
  },

  /** From now on this device says at once, and with every further seed, whose seeds it holds. */
  'roll-call'(device, state) {
    must(state.agreed.role(device.name) >= 0, 'a holder is called');
    return [{ called: true }, [holds(device, state)]];
  },

  /** Sign one list per run: enough owners, whole pods, with the commitments that are known here. */
  owners(device, state, found) {
    const [{ agreed }, entriesOf] = [state, listed(found.body)];
    const names = entriesOf.map(([name]) => name);
    must(!state.owners.length || same(state.owners, found.body), 'a device signs one list per run');
    must(same(packed(...names), packed(...agreed.owners.filter((name) => names.includes(name)))), 'owners, by seat');
    must(!names.includes(device.name) || state.commitments[agreed.seat(device.name)], 'listed as it has uploaded');
    must(names.length >= Math.max(agreed.p.colluders + 2, device.leastOwners), 'a total is never of few');
    for (const pod of device.pods) {
      must(new Set(pod.map((name) => names.includes(name))).size <= 1, 'a list is a union of whole pods');
    }
    for (const [name, digest] of entriesOf) {
      const known = state.commitments[agreed.seat(name)];
      must(!known || same(digest, sha256(packed(...known))), 'the commitments known here');
    }
    const signature = sign(device.secret, wire.listStatement(agreed, found.body));
    const body = packed(wire.listDigest(found.body), signature);
    return [{ owners: found.body }, [message(device, state, 'signature', { body })]];
  },

  /** Nothing made of the sums leaves before the list that is known here is certified. */
  certificate(device, state, found) {
    const { agreed } = state;
    must(agreed.role(device.name) >= 0 && state.owners.length, 'a holder that has signed a list');
    const signatures = new Map(unpacked(found.body, SIGNATURES));
    for (const [name, signature] of signatures) {
      verify(agreed.member(name).identity, wire.listStatement(agreed, state.owners), signature);
    }
    must(signatures.size >= wire.signaturesNeeded(agreed), 'more than (D + z)/2 signed this very list');
    const certified = { certificate: found.body };
    const [different, sends] = settle(device, { ...state, ...certified });
    return [{ ...certified, ...different }, sends];
  },

  /** Answer matrix e, or the constant where the update has no numbers: an epoch for one update only. */
  update(device, state, found) {
    const [{ agreed }, digest] = [state, sha256(found.body)];
    const [epoch, , numbers] = unpacked(found.body, list(whole, whole, bytes));
    if (agreed.role(device.name) < 0) return [{}, []];
    if (epoch <= state.epoch) {
      must(epoch === state.epoch && same(digest, state.update), 'epochs go up, each is answered for one update only');
      return [{}, [state.answer]];
    }
    must(isReady(state), 'sharing comes first');
    let [said, question] = [state.constant, EMPTY];
    if (numbers.length) {
      const [{ p, primes }, kept] = [agreed, agreed.kept(device.name)];
      question = sha256(numbers);
      must(device.questions().add(hex(question)).size < p.epochs, 'no more different questions than agreed on');
      const e = unpack(numbers, primes, p.d * p.outputs);
      const matrix = matrixOf(state.gram, agreed, kept);
      said = pack(primes.map((prime, k) => product(matrix[k], e[k], p.outputs, prime)));
    }
    const answer = toServer(device, state, 'answer', packed(epoch, digest, said));
    return [{ epoch, update: digest, answer, question }, [answer]];
  },

  /** Forget every secret of the run: nothing of it is kept. */
  finish: () => [undefined, []],
};

const UNFIT = 'a seed that does not fit its commitment';

/** [[owner, digest of its commitments, digest of its upload], ...], none before there is a list. */
const listed = (owners) => (owners.length ? unpacked(owners, listOf(list(text, bytes, bytes))) : []);

/** [key, signature]: this device has the private half. */
function signedRoleKey(device, agreed, roleKey) {
  const key = publicOf(roleKey);
  return [key, sign(device.secret, wire.roleKeyStatement(agreed, agreed.role(device.name), key))];
}

/** X'X and the constant part in these blocks of rows: planes of zeros, and how to add what a seed expands to. */
function pieces({ p, primes, nBlocks }, kept) {
  const constant = constantPieces(p.d, nBlocks, kept, p.outputs, p.limit ? 0 : 1);
  return Object.entries({ gram: entries(p.d, nBlocks, kept), constant }).map(([label, parts]) => {
    const planes = zeros(primes, parts.reduce((sum, one) => sum + one.count, 0));
    const add = (seed) => parts.reduce((at, { pair, count }) => {
      addPad(planes, primes, at, seed, label, count, pair);
      return at + count;
    }, 0);
    return { planes, add, places: parts.flatMap((one) => one.places) };
  });
}

/** U = X'X + R and V = G + r, packed one behind the other: this device's numbers plus the pads of all these seeds. */
function padded(agreed, terms, seeds) {
  const { p, primes, bits, everything } = agreed;
  const parts = pieces(agreed, everything);
  const own = p.limit ? [[0], terms.numbers] : statistics(p, bits, terms.X, terms.Y, parts[0].places);
  return Buffer.concat(parts.map(({ planes, add }, i) => {
    must(own[i].length === planes[0].length, 'as many numbers as were agreed on');
    toPlanes(own[i], primes).forEach((plane, k) => planes[k].set(plane));
    seeds.forEach(add);
    return pack(planes);
  }));
}

/** Fresh seeds, one sealed to the key of each role; the seed of its own role this device keeps itself. */
function upload(device, state, terms, keys) {
  const [{ agreed }, me] = [state, device.name];
  const seeds = keys.map((_, role) => [`role-${role}`, device.random(32)]);
  const attachment = padded(agreed, terms, seeds.map(([, seed]) => seed));
  const commitments = wire.committed(seeds, agreed, me, device.secret);
  const envelopes = seeds.map(([purpose, seed], role) => {
    const bound = wire.seedContext(agreed, me, purpose, commitments);
    return [purpose, seal(state.key, keys[role], bound, packed(EMPTY, seed, EMPTY, EMPTY), device.random(32))];
  });
  const shares = message(device, state, 'shares', { body: packed(commitments, EMPTY, envelopes), attachment });
  const [different, sends] = take(device, state, me, seeds[agreed.role(me)]?.[1], commitments);
  return [different, [wire.signed(shares, device.secret), ...sends]];
}

const replaced = (array, at, value) => Object.assign([...array], { [at]: value });

const heldOwners = ({ agreed, seeds }) => agreed.owners.filter((name) => seeds[agreed.seat(name)]);
const holds = (device, state) => toServer(device, state, 'holds', packed(...heldOwners(state)));

/** Keep commitments, and the seed where there is one; say whose seeds are here when all are, or since the roll call. */
function take(device, state, owner, seed, commitments) {
  const seat = state.agreed.seat(owner);
  const kept = { commitments: replaced(state.commitments, seat, commitments) };
  if (!seed) return [kept, []];
  const next = { ...state, ...kept, seeds: replaced(state.seeds, seat, seed) };
  const complete = heldOwners(next).length === next.agreed.owners.length;
  const sends = next.called || complete ? [holds(device, next)] : [];
  const [different, more] = settle(device, next);
  return [{ ...kept, seeds: next.seeds, ...different }, [...sends, ...more]];
}

/**
 * With the certificate and the seeds of all owners on the list, whichever comes last, this device is ready: it keeps
 * the sums of the pads of its role, and forgets the seeds. Every owner has signed its commitments: by its signature on
 * the list, which names them, or on themselves.
 */
function settle(device, state) {
  const [{ agreed }, owners] = [state, listed(state.owners)];
  const seats = owners.map(([name]) => agreed.seat(name));
  if (!state.certificate.length || seats.some((seat) => !state.seeds[seat])) return [{}, []];
  const signers = [device.name, ...unpacked(state.certificate, SIGNATURES).map(([name]) => name)];
  const unsigned = owners.filter(([name, digest], i) => {
    const commitments = state.commitments[seats[i]];
    try {
      must(same(sha256(packed(...commitments)), digest), 'the commitments are those listed');
      if (!signers.includes(name)) wire.checkCommitted(commitments, agreed, name);
      return false;
    } catch {
      return true;
    }
  }).map(([name]) => name);
  if (unsigned.length) {
    const without = (array) => array.map((one, seat) => (unsigned.includes(agreed.names[seat]) ? null : one));
    const different = { seeds: without(state.seeds), commitments: without(state.commitments) };
    return [different, unsigned.map((name) => complaint(device, state, name, UNFIT))];
  }
  const [gram, constant] = pieces(agreed, agreed.kept(device.name)).map(({ planes, add }) => {
    seats.forEach((seat) => add(state.seeds[seat]));
    return pack(planes);
  });
  const forgotten = { seeds: [], roleKey: EMPTY, certificate: EMPTY };
  return [{ gram, constant, ...forgotten }, [toServer(device, state, 'ready', EMPTY)]];
}
