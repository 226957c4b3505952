// Bodies of calls and replies, and letters of runs: the page's section "At a broker", from "Bodies" on.

import { needsRows, NO_PART, NOTHING, receive } from './device.mjs';
import { place } from './line.mjs';
import { bytes, decode, encode, list, listOf, packed, text, unpacked, VERSION, whole } from './messages.mjs';
import { EMPTY, hex, identityOf, must, same, sign } from './secrets.mjs';

const HELLO = list(text, whole, bytes, bytes);
const STEP = list(text, whole, bytes, text, place, whole, whole, text, place, listOf(list(place, place)));

export class Letters {
  /** terms: from the bytes of an ask what follows from it, and an exception where it does not follow from the study. */
  constructor({ device, runs, ledger, terms, log, fail }) {
    Object.assign(this, { device, runs, ledger, terms, log, fail, worked: false });
  }

  /** The reply to a call, as a list; `fetch` gets the bytes of a place. */
  async reply(call, fetch) {
    try {
      const body = unpacked(call, Array.isArray);
      const [kind, version] = body;
      must(kind !== 'dismissal', `the server says ${JSON.stringify(body[1]).slice(0, 500)}`);
      const other = `the protocol version must be ${VERSION} on this node, got ${version}`;
      if (version !== VERSION) return ['refused', other];
      if (kind === 'hello') return this.introduction(body);
      must(kind === 'step' && STEP(body), 'a call that is known here');
      return await this.step(body, fetch);
    } catch (refused) {
      this.log(refused.message);
      return ['refused', NO_PART];
    }
  }

  introduction(body) {
    const { name, secret, server } = this.device;
    must(HELLO(body) && body[2].length === 16 && same(body[3], server), 'only for the server that the study names');
    const statement = packed('codedfl introduction v3', server, body[2], name);
    return ['introduction', name, identityOf(secret), sign(secret, statement)];
  }

  async step([, , run, name, askPlace, first, confirmed, , newestPlace, pairs], fetch) {
    const [ask, newest, heads] = [await fetch(askPlace), await fetch(newestPlace), []];
    for (const [head, bulk] of pairs) {
      must(bytes(bulk) && !bulk.length, 'no message to a device of role keys has an attachment');
      heads.push(await fetch(head));
    }
    must(name === this.device.name && run.length === 16, 'a step is for this device');
    const id = hex(run);
    const known = this.current?.id === id ? this.current.record : this.runs.load(id);
    const isOver = !known && newest.length && decode(newest).kind === 'finish';
    if (isOver) return ['parcel', 0, 0, '', EMPTY, []];
    const record = { ...(known ?? { ask, taken: 0, first: 0, letters: [], state: NOTHING }) };
    must(!known || !ask.length || same(ask, record.ask), 'a run is for one ask');
    must(known || first === 0, 'the letters of a run begin with number 0');
    const terms = await this.termsOf(record, known);

    let [newestReply, refusal] = [EMPTY, ''];
    const hand = (data) => {
      must(same(decode(data).run, run), 'a letter is of the run of the step');
      const [state, sends] = receive(this.device, record.state, data, terms);
      record.state = state;
      for (const one of sends) {
        if (one.kind === 'answer') newestReply = encode(one);
        else record.letters = [...record.letters, [encode({ ...one, attachment: EMPTY }), one.attachment]];
      }
    };
    try {
      const sent = record.first + record.letters.length;
      must(confirmed >= record.first && confirmed <= sent, 'what was sent is confirmed, and stays so');
      must(first >= 0 && first <= record.taken, 'no letter is missing');
      for (const head of heads.slice(record.taken - first)) {
        hand(head);
        record.taken += 1;
        if (!record.state) break; // refused: nothing of the run is kept
      }
      record.letters = record.letters.slice(confirmed - record.first);
      record.first = confirmed;
      if (newest.length && record.state) hand(newest);
    } catch (refused) {
      this.log(refused.message);
      refusal = NO_PART;
      try { if (decode(newest).kind === 'finish') hand(newest); } catch { /* no end of the run, or a false one */ }
    }
    this.keep(id, record, known, terms);
    this.worked = true;
    return ['parcel', record.first, record.taken, refusal, newestReply, record.letters];
  }

  /** Until the upload the rows are at hand, also after a restart; before a join the ledger must have room for it. */
  async termsOf({ ask, state }, known) {
    if (!needsRows(this.device, state)) return (this.asked = undefined);
    if (!this.asked || !same(this.asked.ask, ask)) this.asked = { ask, terms: await this.terms(ask) };
    if (!known) this.ledger.check(this.asked.terms, hex(ask));
    return this.asked.terms;
  }

  /** First the ledger, then state and letters, and only then the reply. What is not saved has not been said. */
  keep(id, record, known, terms) {
    const { state } = record;
    try {
      this.current = undefined;
      if (!state) this.runs.wipe(id); // finished, or never joined
      if (!state?.run.length) return;
      if (!known) {
        this.ledger.add('contribution', terms.statistic, hex(record.ask), id);
        // a run without an agreement has one place on the disk, which the next one takes
        this.runs.expire();
        const waiting = this.runs.ids().filter((one) => !this.runs.load(one)?.state.agreement.length);
        waiting.forEach((one) => this.runs.wipe(one));
      }
      if (state.question.length) this.ledger.add('question', hex(state.question), id);
      this.runs.save(id, record);
      this.current = { id, record };
    } catch (error) {
      this.fail(`the disk: ${error.message}`);
    }
  }
}
