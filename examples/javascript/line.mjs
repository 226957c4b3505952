// Frames between a device and the server: the page's section "At a broker", "Frames". All of it is in memory only.

import { bytes, list, listOf, packed, text, unpacked, whole } from './messages.mjs';
import { hex, must, same, sha256 } from './secrets.mjs';

const PIECE = 98304; // bytes; more do not travel in a frame
const AT_ONCE = 8; // pieces on the way
const TIMES = 8; // that a piece is sent
const PATIENCE = 30_000; // ms without any piece
const MOST = 2 ** 30; // bytes that a call may refer to in all

/** A place marked * on the page: bytes, or [SHA-256, size] of what is to be fetched. */
export const place = (v) => bytes(v) || list(bytes, whole)(v);

/** Under which a device connects: nobody without its private key can guess it. */
export function clientId(name, study, keyFile) {
  const who = `${name}-${study}`;
  return `${who}-${hex(sha256(`codedfl client id|${who}|`, keyFile)).slice(0, 32)}`;
}

const number = (v) => text(v) && v.length <= 80;
const FRAMES = {
  call: list(text, number, place),
  nudge: list(text, number),
  fetch: list(text, bytes, listOf(whole)),
  piece: list(text, bytes, whole, bytes),
  gone: list(text, bytes),
};

export class Line {
  /** send: a frame's bytes. work: from a call's body, and a function that fetches places, the reply's fields. */
  constructor(send, work) {
    Object.assign(this, { send, work, offers: new Map(), parts: new Map(), now: null, last: null, busy: false });
    this.wake = () => {};
  }

  /** A frame of the server; one that cannot be read is ignored. */
  take(data) {
    const [kind, ...fields] = unpacked(data, (v) => Array.isArray(v) && Object.hasOwn(FRAMES, v[0]) && FRAMES[v[0]](v));
    this[kind](...fields);
  }

  /** A newer call voids one that has not been worked on; the last one is replied to again, with the same bytes. */
  call(number, body) {
    if (this.last?.number === number) this.send(this.last.frame);
    else if (this.now?.number !== number) this.turnTo({ number, body, isVoid: false });
  }

  nudge(number) {
    if (this.last?.number === number) this.send(this.last.frame);
    else if (this.now?.number !== number) this.send(packed('unknown', number));
  }

  /** Pieces of what the last reply referred to. */
  fetch(digest, indices) {
    const offer = this.offers.get(hex(digest));
    if (!offer) this.send(packed('gone', digest));
    for (const i of offer ? indices.slice(0, AT_ONCE) : []) {
      const piece = offer.data.subarray(i * PIECE, (i + 1) * PIECE);
      offer.times[i] = (offer.times[i] ?? 0) + 1;
      if (i >= 0 && piece.length && offer.times[i] <= TIMES) this.send(packed('piece', digest, i, piece));
    }
  }

  piece(digest, i, data) {
    const part = this.parts.get(hex(digest));
    if (!part || i < 0 || data.length === 0 || data.length !== Math.min(PIECE, part.size - i * PIECE)) return;
    part.pieces[i] = data;
    this.wake();
  }

  /** A call that referred to it is dropped; so is one when the connection is lost. */
  gone(digest) {
    if (this.parts.delete(hex(digest))) this.turnTo(null);
  }

  turnTo(call) {
    if (this.now) this.now.isVoid = true;
    this.now = call;
    this.wake();
    if (!this.busy) this.workOn();
  }

  /** Calls one at a time: one that is worked on comes to its end, and its reply leaves if it is still waited for. */
  async workOn() {
    this.busy = true;
    while (this.now) {
      const call = this.now;
      const body = await this.get(call.body, call).catch(() => null); // void by now, or not what was referred to
      const reply = body && await this.work(body, (at) => this.get(at, call));
      if (reply && !call.isVoid) this.reply(call.number, reply);
      if (this.now === call) this.now = null;
    }
    this.busy = false;
  }

  reply(number, fields) {
    this.offers.clear();
    this.parts.clear();
    const body = this.referred(packed(...fields.map((one) => this.referred(one))));
    this.last = { number, frame: packed('reply', number, body) };
    this.send(this.last.frame);
  }

  /** Bytes that are too many for a frame are offered, and referred to. */
  referred(value) {
    if (Array.isArray(value)) return value.map((one) => this.referred(one));
    if (!bytes(value) || value.length <= PIECE) return value;
    const digest = sha256(value);
    this.offers.set(hex(digest), { data: value, times: [] });
    return [digest, value.length];
  }

  /** The bytes of a place, as long as its call is not void. Pieces that have come stay until there is a reply. */
  async get(at, call) {
    if (bytes(at)) return at;
    const [[digest, size], id] = [at, hex(at[0])];
    call.size = (call.size ?? 0) + size;
    const held = [...this.parts.values()].reduce((sum, one) => sum + one.size, 0);
    must(size > PIECE && call.size <= MOST, 'what a call refers to is too much for a frame, and not too much in all');
    if (this.parts.get(id)?.size !== size) {
      if (held + size > MOST) this.parts.clear();
      this.parts.set(id, { size, pieces: Array(Math.ceil(size / PIECE)).fill(null) });
    }
    const { pieces } = this.parts.get(id);
    while (pieces.includes(null)) {
      const wanted = [...pieces.keys()].filter((i) => !pieces[i]).slice(0, AT_ONCE);
      this.send(packed('fetch', digest, wanted));
      while (wanted.some((i) => !pieces[i]) && await this.news()) must(!call.isVoid, 'a void call is not fetched for');
    }
    const data = Buffer.concat(pieces);
    if (same(sha256(data), digest)) return data;
    this.parts.delete(id);
    throw new Error('what was fetched is not what was referred to');
  }

  /** Whether anything happens within the time to wait for a piece. */
  news() {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, PATIENCE, false);
      this.wake = () => { clearTimeout(timer); resolve(true); };
    });
  }
}
