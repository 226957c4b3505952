// Words modulo 2^k and where they stand: the page's "Numbers".
//
// Words are 64 bits of a BigUint64Array, whatever k: they wrap by themselves, and their low k bits are right.

import { padBytes } from './secrets.mjs';

export const TILE = 256;
const LOW = 2n ** 40n;

export const tileRows = (layout) => Math.ceil(layout.size / TILE);
const triangle = (layout) => (layout.size * (layout.size + 1)) / 2;

/** Where the words of the vector end, and those of the matrix. */
export const spans = (layout) => [layout.words * layout.length, layout.words * (layout.length + triangle(layout))];

/** Calls back for each number of the triangle, in the order in which they travel. */
function eachPlace(size, found) {
  let at = 0;
  for (let top = 0; top < size; top += TILE) {
    for (let left = top; left < size; left += TILE) {
      for (let i = top; i < Math.min(size, top + TILE); i++) {
        for (let j = Math.max(i, left); j < Math.min(size, left + TILE); j++) found(i, j, at++);
      }
    }
  }
}

/** One word for each number; of two, first the low words of all, then the high ones. */
function planes(layout, numbers) {
  if (layout.words === 1) return numbers;
  return [...numbers.map((v) => BigInt.asUintN(40, v)), ...numbers.map((v) => (v - BigInt.asUintN(40, v)) / LOW)];
}

/** All words of a device: of a vector, and of all rows and columns of a matrix. */
export function wordsOf(layout, vector, matrix) {
  const ordered = new Array(triangle(layout));
  eachPlace(layout.size, (i, j, at) => { ordered[at] = matrix[i][j]; });
  return BigUint64Array.from([...planes(layout, vector), ...planes(layout, ordered)]);
}

/** k/8 bytes for each word, little endian. */
export function toBytes(bits, words) {
  const all = Buffer.from(words.buffer, words.byteOffset, words.byteLength); // little endian, as all machines of Node
  if (bits === 64) return Buffer.from(all);
  const width = bits / 8;
  const found = Buffer.alloc(words.length * width);
  for (let i = 0; i < words.length; i++) all.copy(found, i * width, 8 * i, 8 * i + width);
  return found;
}

export function fromBytes(bits, data) {
  const width = bits / 8;
  const all = Buffer.alloc((8 * data.length) / width);
  for (let i = 0; i < data.length / width; i++) data.copy(all, 8 * i, i * width, (i + 1) * width);
  return new BigUint64Array(all.buffer, all.byteOffset, all.length / 8);
}

/** Whether no number of a sum of vectors is larger in size than the layout allows. */
export function isWithinLimit({ bits, words, length, limit }, total) {
  const [signed, most] = [Array.from(total, (word) => BigInt.asIntN(bits, word)), BigInt(limit)];
  const numbers = signed.slice(0, length).map((low, i) => (words === 1 ? low : low + LOW * signed[length + i]));
  return numbers.every((v) => v <= most && -v <= most);
}

/** total += sign words */
export function add(total, words, sign = 1n) {
  for (let i = 0; i < total.length; i++) total[i] += sign * words[i];
  return total;
}

/** Words `first` to `last` - 1 of a pad. */
export const pad = (key, bits, first, last) => fromBytes(bits, padBytes(key, (first * bits) / 8, ((last - first) * bits) / 8));

/** Rows of the matrix times e, row by row: those of tile rows `first` to `last` - 1; plane after plane. */
export function product(layout, words, e, first, last) {
  const { size, columns } = layout;
  const [top, bottom] = [first * TILE, Math.min(size, last * TILE)];
  const found = new BigUint64Array(layout.words * (bottom - top) * columns);
  const put = (start, i, j, word) => {
    if (i < top || i >= bottom) return;
    const at = start + (i - top) * columns;
    for (let c = 0; c < columns; c++) found[at + c] += word * e[j * columns + c];
  };
  for (let plane = 0; plane < layout.words; plane++) {
    const start = plane * (bottom - top) * columns;
    eachPlace(size, (i, j, at) => {
      const word = words[plane * triangle(layout) + at];
      put(start, i, j, word);
      if (i !== j) put(start, j, i, word);
    });
  }
  return found;
}
