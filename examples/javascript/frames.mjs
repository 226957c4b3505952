/** Frames of one study: requests and replies, by pieces where they are long. "How requests travel". */

import { sha256 } from './secrets.mjs';
import { bytes, decode, digest, encode, int, list, many, Refusal, text } from './wire.mjs';

const PIECE = 98304;
const MOST = 2 ** 26;
const AT_ONCE = 8;
const PATIENCE = 5000; // milliseconds until a piece is asked for again

const SHAPES = {
  whole: list(text, bytes, bytes),
  offered: list(text, bytes, digest, int),
  pull: list(text, digest, many(int)),
  piece: list(text, digest, int, bytes),
  gone: list(text, digest),
};
const frame = (found) => (Object.hasOwn(SHAPES, found?.[0]) ? SHAPES[found[0]](found) : text(null));

export class Frames {
  /** `send` publishes a frame for the server. */
  constructor(device, send) {
    Object.assign(this, { device, send, given: new Map(), wanted: null, next: null });
  }

  receive(data) {
    try {
      const [kind, ...rest] = decode(data, frame);
      this[`_${kind}`](...rest);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error; // what is no frame is nobody's
    }
  }

  _whole(_, request) {
    if (this.next === null) setImmediate(() => this.#answer());
    this.next = request; // the newest that is not begun with
  }

  _offered(_, named, size) {
    if (size > MOST) return;
    if (!this.wanted?.named.equals(named)) {
      this.wanted = { named, size: Number(size), pieces: Array(Math.ceil(Number(size) / PIECE)), asked: new Map() };
    }
    this.wanted.asked.clear();
    this.pull();
  }

  /** Have at most eight pieces on the way; to be called again after a while, for those that have not come. */
  pull(now = Date.now()) {
    if (!this.wanted) return;
    const { named, pieces, asked } = this.wanted;
    const due = [...pieces.keys()].filter((i) => !pieces[i] && !(asked.get(i) > now - PATIENCE));
    const onTheWay = [...asked.values()].filter((time) => time > now - PATIENCE).length;
    const more = due.slice(0, Math.max(0, AT_ONCE - onTheWay));
    more.forEach((i) => asked.set(i, now));
    if (more.length) this.send(encode(['pull', named, more]));
  }

  _piece(named, index, data) {
    if (!this.wanted?.named.equals(named)) return;
    const { size, pieces, asked } = this.wanted;
    const i = Number(index);
    if (i >= pieces.length || data.length !== Math.min(PIECE, size - i * PIECE)) return;
    pieces[i] = data;
    asked.delete(i);
    if (pieces.includes(undefined)) {
      this.pull();
      return;
    }
    this.wanted = null;
    const whole = Buffer.concat(pieces);
    if (sha256(whole).equals(named)) this._whole(null, whole);
  }

  _gone(named) {
    if (this.wanted?.named.equals(named)) this.wanted = null;
  }

  _pull(named, indices) {
    const data = this.given.get(named.toString('hex'));
    if (!data) this.send(encode(['gone', named]));
    for (const index of data ? indices.slice(0, AT_ONCE).map(Number) : []) {
      const piece = data.subarray(index * PIECE, (index + 1) * PIECE);
      if (piece.length) this.send(encode(['piece', named, index, piece]));
    }
  }

  #answer() {
    const request = this.next;
    this.next = null;
    const [reply, of] = [this.device.reply(request), sha256(request)];
    if (reply.length <= PIECE) {
      this.send(encode(['whole', of, reply]));
      return;
    }
    const named = sha256(reply);
    this.given = new Map([...this.given, [named.toString('hex'), reply]].slice(-2));
    this.send(encode(['offered', of, named, reply.length]));
  }
}
