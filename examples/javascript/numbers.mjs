/**
 * Words, layouts and products: "Numbers" in docs/protocol.md.
 *
 * Words are kept modulo 2^64 whatever k is, which a BigUint64Array does by itself, and cut to k bits as they become
 * bytes. The bytes of such an array are little endian on every machine that Node is made for, but for one.
 */

const TILE = 256;
const LOW = 40;

/** Where the words of the vector end, and those of the matrix. */
export function spans({ words, length, size }) {
  return [words * length, words * (length + (size * (size + 1)) / 2)];
}

export const tileRows = (size) => Math.ceil(size / TILE);

/** Visit row and column of each number of the triangle, as it travels. */
function eachPlace(size, visit) {
  for (let top = 0; top < size; top += TILE) {
    for (let left = top; left < size; left += TILE) {
      for (let i = top; i < Math.min(size, top + TILE); i += 1) {
        for (let j = Math.max(i, left); j < Math.min(size, left + TILE); j += 1) visit(i, j);
      }
    }
  }
}

function planes({ words }, numbers) {
  if (words === 1) return numbers;
  return [...numbers.map((v) => BigInt.asUintN(LOW, v)), ...numbers.map((v) => v >> BigInt(LOW))];
}

/** All words of one owner: those of the vector, then those of the matrix. */
export function wordsOf(layout, vector, matrix) {
  const triangle = [];
  eachPlace(layout.size, (i, j) => triangle.push(matrix[i][j]));
  return BigUint64Array.from([planes(layout, vector), planes(layout, triangle)].flat());
}

/** Undo the planes, of a sum of words. */
export function numbersOf({ bits, words }, sum) {
  const count = sum.length / words;
  const signed = Array.from(sum, (v) => BigInt.asIntN(bits, v));
  return signed.slice(0, count).map((v, i) => (words === 1 ? v : v + (signed[count + i] << BigInt(LOW))));
}

/** k/8 bytes for each word, little endian. */
export function toBytes(bits, words) {
  const width = bits / 8;
  const all = Buffer.from(words.buffer, words.byteOffset, words.byteLength);
  const found = Buffer.alloc(words.length * width);
  for (let i = 0; i < words.length; i += 1) {
    for (let at = 0; at < width; at += 1) found[i * width + at] = all[i * 8 + at];
  }
  return found;
}

export function fromBytes(bits, data) {
  const width = bits / 8;
  const words = new BigUint64Array(Math.ceil(data.length / width));
  const all = Buffer.from(words.buffer);
  for (let from = 0; from < data.length; from += 1) all[Math.floor(from / width) * 8 + (from % width)] = data[from];
  return words;
}

/** Add to a sum, in place. */
export function add(sum, words, sign = 1n) {
  for (let i = 0; i < sum.length; i += 1) sum[i] += sign * words[i];
}

/** Rows of the matrix times e, row by row: those of tile rows `first` to `last` - 1. Plane after plane. */
export function product({ size, words, columns }, triangle, e, [first, last]) {
  const top = first * TILE;
  const end = Math.min(size, last * TILE);
  const found = new BigUint64Array(words * (end - top) * columns);
  let read = 0;
  for (let plane = 0; plane < words; plane += 1) {
    const count = (i, j, value) => {
      if (i < top || i >= end) return;
      const at = (plane * (end - top) + i - top) * columns;
      for (let c = 0; c < columns; c += 1) found[at + c] += value * e[j * columns + c];
    };
    eachPlace(size, (i, j) => {
      const value = triangle[read];
      read += 1;
      count(i, j, value);
      if (i !== j) count(j, i, value);
    });
  }
  return found;
}
