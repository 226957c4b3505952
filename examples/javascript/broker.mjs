/** As much of MQTT 5 as a device needs, over TLS. */

import { EventEmitter } from 'node:events';
import tls from 'node:tls';

const PING = 10_000;
const [CONNACK, PUBLISH, PUBACK, DISCONNECT] = [2, 3, 4, 14];
const TAKEN_OVER = 0x8e;
const EXPIRY = 2; // the property "message expiry interval", 4 bytes

const short = (value) => Buffer.from([value >> 8, value & 255]);
const text = (value) => Buffer.concat([short(Buffer.byteLength(value)), Buffer.from(value)]);

function packet(first, ...parts) {
  const body = Buffer.concat(parts);
  const size = [];
  for (let left = body.length; left || !size.length; left >>>= 7) size.push((left & 127) | (left > 127 ? 128 : 0));
  return Buffer.concat([Buffer.from([first, ...size]), body]);
}

/** A number of one to four bytes, and where the next byte is; nothing if it is not here yet. */
function variable(data, from) {
  for (let at = from, found = 0; at < Math.min(data.length, from + 4); at += 1) {
    found += (data[at] & 127) << (7 * (at - from));
    if (data[at] < 128) return [found, at + 1];
  }
  return null;
}

/**
 * One connection, clean. Emits `up`, `message` (topic, data), `confirmed` and `down` (reason, whether another
 * connection has taken the place).
 */
export class Connection extends EventEmitter {
  constructor({ host, port, id, will, ...files }) {
    super();
    const options = { host, port, ...files, servername: /^[\d.:[\]]+$/.test(host) ? '' : host };
    this.held = Buffer.alloc(0);
    this.socket = tls.connect(options, () => {
      const flags = 0x02 | 0x04 | (1 << 3) | 0x20; // clean start; a will, confirmed, retained
      const head = [text('MQTT'), Buffer.from([5, flags]), short((3 * PING) / 1000), Buffer.from([0])];
      this.socket.write(packet(0x10, ...head, text(id), Buffer.from([0]), text(will), short(0)));
    });
    this.socket.setNoDelay(true);
    this.socket.setTimeout(3 * PING, () => this.socket.destroy(new Error('the broker is silent')));
    this.socket.on('data', (data) => this.#receive(data));
    this.socket.on('error', (error) => { this.reason = error.message; });
    this.socket.on('close', () => {
      clearInterval(this.timer);
      this.timer = null;
      this.emit('down', this.reason ?? 'closed', this.takenOver ?? false);
    });
  }

  subscribe(...topics) {
    const each = topics.flatMap((topic) => [text(topic), Buffer.from([1])]);
    this.#write(0x82, short(1), Buffer.from([0]), ...each);
  }

  /** Retained and confirmed; nothing takes away what was retained. */
  retain(topic, data) {
    this.#write(0x33, text(topic), short(2), Buffer.from([0]), data);
  }

  /** Once, forgotten after 60 seconds. */
  send(topic, data) {
    this.#write(0x30, text(topic), Buffer.from([5, EXPIRY, 0, 0, 0, 60]), data);
  }

  end() {
    this.socket.end(packet(0xe0));
  }

  /** What cannot leave now is lost: whoever misses it asks again. */
  #write(...of) {
    if (this.timer) this.socket.write(packet(...of));
  }

  #receive(data) {
    this.held = Buffer.concat([this.held, data]);
    for (;;) {
      const [size, start] = variable(this.held, 1) ?? [];
      if (start === undefined || this.held.length < start + size) return;
      const [first, body] = [this.held[0], this.held.subarray(start, start + size)];
      this.held = this.held.subarray(start + size);
      this.#take(first >> 4, first & 15, body);
    }
  }

  #take(kind, flags, body) {
    if (kind === CONNACK && body[1]) {
      this.socket.destroy(new Error(`the broker refuses with reason ${body[1]}`));
    } else if (kind === CONNACK) {
      this.timer = setInterval(() => this.#write(0xc0), PING);
      this.emit('up');
    } else if (kind === PUBLISH) {
      let at = 2 + body.readUInt16BE();
      const topic = body.toString('utf8', 2, at);
      if ((flags >> 1) & 3) {
        this.#write(0x40, body.subarray(at, at + 2));
        at += 2;
      }
      const [size, start] = variable(body, at);
      this.emit('message', topic, body.subarray(start + size));
    } else if (kind === PUBACK) {
      this.emit('confirmed');
    } else if (kind === DISCONNECT) {
      this.takenOver = body[0] === TAKEN_OVER;
    }
  }
}
