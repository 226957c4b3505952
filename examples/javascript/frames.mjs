// Requests and replies as frames at a broker, the large ones by pieces: the page's "How requests travel".

import { bytes, decode, encode, listOf, text, whole } from './msgpack.mjs';
import { sha256 } from './secrets.mjs';

const PIECE = 98304;
const ON_THE_WAY = 8;
const PATIENCE = 5000; // milliseconds
const MOST_REQUEST = 2 ** 26;

const FRAMES = {
  whole: [text, bytes, bytes],
  offered: [text, bytes, 32, whole],
  pull: [text, 32, listOf(whole)],
  piece: [text, 32, whole, bytes],
  gone: [text, 32],
};
const hex = (data) => data.toString('hex');

/** One study of a device: frames in, frames out. `ready` is told of every whole request. */
export class Frames {
  constructor(send, ready) {
    Object.assign(this, { sendFrame: send, ready });
    this.offers = new Map(); // digest -> content, the newest two
    this.pulled = null; // {digest, size, pieces, asked: index -> when}
  }

  send(...frame) { this.sendFrame(encode(frame)); }

  /** A reply, or the offer of a large one. */
  reply(of, data) {
    if (data.length <= PIECE) { this.send('whole', of, data); return; }
    const digest = sha256(data);
    this.offers.delete(hex(digest));
    this.offers.set(hex(digest), data);
    if (this.offers.size > 2) this.offers.delete(this.offers.keys().next().value);
    this.send('offered', of, digest, BigInt(data.length));
  }

  take(data) {
    const [kind] = decode(data, (found) => Array.isArray(found) && Object.hasOwn(FRAMES, found[0]));
    this[kind](...decode(data, FRAMES[kind]).slice(1));
  }

  whole(_, data) { this.ready(data); }

  offered(_, digest, size) {
    if (size > MOST_REQUEST) return;
    const same = this.pulled?.digest.equals(digest) && this.pulled.size === Number(size);
    if (!same) this.pulled = { digest, size: Number(size), pieces: new Map(), asked: new Map() };
    this.pulled.asked.clear();
    this.askOn();
  }

  /** Ask for pieces that are neither here nor on the way; to be called from time to time. */
  askOn() {
    if (!this.pulled) return;
    const { digest, size, pieces, asked } = this.pulled;
    for (const [index, when] of asked) if (Date.now() - when >= PATIENCE) asked.delete(index);
    const wanted = [];
    for (let index = 0; index * PIECE < size && asked.size < ON_THE_WAY; index++) {
      if (pieces.has(index) || asked.has(index)) continue;
      asked.set(index, Date.now());
      wanted.push(BigInt(index));
    }
    if (wanted.length) this.send('pull', digest, wanted);
  }

  pull(digest, indices) {
    const content = this.offers.get(hex(digest));
    if (!content) { this.send('gone', digest); return; }
    for (const index of indices.slice(0, ON_THE_WAY)) {
      const at = Number(index) * PIECE;
      if (at < content.length) this.send('piece', digest, index, content.subarray(at, at + PIECE));
    }
  }

  piece(digest, index, data) {
    const [pulled, at] = [this.pulled, Number(index)];
    if (!pulled?.digest.equals(digest) || !pulled.asked.has(at)) return;
    if (data.length !== Math.min(PIECE, pulled.size - at * PIECE)) return;
    pulled.asked.delete(at);
    pulled.pieces.set(at, data);
    if (pulled.pieces.size * PIECE < pulled.size) { this.askOn(); return; }
    const content = Buffer.concat([...pulled.pieces].sort(([a], [b]) => a - b).map(([, piece]) => piece));
    this.pulled = null;
    if (sha256(content).equals(digest)) this.ready(content);
  }

  gone(digest) { if (this.pulled?.digest.equals(digest)) this.pulled = null; }
}
