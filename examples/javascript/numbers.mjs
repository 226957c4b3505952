// Numbers in the ring of a run, and rows on its grids: the page's section "Numbers".
//
// A ring number is one residue per prime, so a list of them is one plane (a Uint32Array) per prime. Doubles are exact
// here: sums of a device's own products stay within 2^53, and a product of two residues is below 2^48.

import { must } from './secrets.mjs';

/** The `count` largest primes below 2^24 that are 1 modulo `divisor`. */
export function primesFor(divisor, count = 2) {
  const found = [];
  const isPrime = (n) => { for (let q = 2; q * q <= n; q++) if (n % q === 0) return false; return true; };
  for (let one = Math.floor((2 ** 24 - 2) / divisor) * divisor + 1; found.length < count; one -= divisor) {
    must(one > 1, 'there are enough primes');
    if (isPrime(one)) found.push(one);
  }
  return found;
}

export const zeros = (primes, count) => primes.map(() => new Uint32Array(count));

/** Whole numbers (doubles within 2^53, or BigInts) as residues. */
export const toPlanes = (numbers, primes) => primes.map((p) => Uint32Array.from(numbers, (x) => (
  typeof x === 'bigint' ? Number(((x % BigInt(p)) + BigInt(p)) % BigInt(p)) : ((x % p) + p) % p)));

/** Plane behind plane: three bytes a number, little endian. */
export function pack(planes) {
  const bytes = Buffer.alloc(3 * planes.reduce((sum, plane) => sum + plane.length, 0));
  let at = 0;
  for (const plane of planes) for (const x of plane) at = bytes.writeUIntLE(x, at, 3);
  return bytes;
}

export function unpack(bytes, primes, count) {
  must(bytes.length === 3 * count * primes.length, 'a packed number takes three bytes per prime');
  return primes.map((p, k) => Uint32Array.from({ length: count }, (_, i) => {
    const at = 3 * (k * count + i);
    const x = bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16);
    must(x < p, 'a residue is below its prime');
    return x;
  }));
}

const blockRows = (d, blocks, k) => [Math.floor((k * d) / blocks), Math.floor(((k + 1) * d) / blocks)];

/** The pairs of row blocks with a block that is kept, each with its entries (i, j) as i * d + j, as they travel. */
export function entries(d, blocks, kept) {
  const found = [];
  for (let a = 0; a < blocks; a++) {
    for (let b = a; b < blocks; b++) {
      if (!kept.includes(a) && !kept.includes(b)) continue;
      const places = [];
      const [[top, bottom], [left, right]] = [blockRows(d, blocks, a), blockRows(d, blocks, b)];
      for (let i = top; i < bottom; i++) for (let j = Math.max(i, left); j < right; j++) places.push(i * d + j);
      found.push({ pair: [a, b], count: places.length, places });
    }
  }
  return found;
}

/** The pieces of the constant part in the blocks kept; `beside` is 1 for the row count, which the last one has. */
export const constantPieces = (d, blocks, kept, outputs, beside) => kept.map((k) => {
  const [from, to] = blockRows(d, blocks, k);
  return { pair: [k, k], count: (to - from) * outputs + (k === blocks - 1 ? beside : 0) };
});

/** Of one plane of a triangle the whole rows of the blocks kept, one behind the other. */
export function rowsFrom(plane, d, blocks, kept) {
  const at = new Int32Array(d).fill(-1);
  let rows = 0;
  for (const k of kept) for (let [i, end] = blockRows(d, blocks, k); i < end; i++) at[i] = rows++;
  const matrix = new Float64Array(rows * d);
  entries(d, blocks, kept).flatMap((one) => one.places).forEach((place, index) => {
    const [i, j] = [Math.floor(place / d), place % d];
    if (at[i] >= 0) matrix[at[i] * d + j] = plane[index];
    if (at[j] >= 0) matrix[at[j] * d + i] = plane[index];
  });
  return matrix;
}

/** matrix e modulo p, row by row; e has `outputs` columns. */
export function product(matrix, e, outputs, p) {
  const d = e.length / outputs;
  const column = (c) => Float64Array.from({ length: d }, (_, j) => e[j * outputs + c]);
  const columns = Array.from({ length: outputs }, (_, c) => column(c));
  return Uint32Array.from({ length: (matrix.length / d) * outputs }, (_, index) => {
    const [from, of] = [Math.floor(index / outputs) * d, columns[index % outputs]];
    let sum = 0;
    for (let j = 0; j < d; j++) {
      sum += matrix[from + j] * of[j];
      if (j % 16 === 15) sum %= p; // 16 products below 2^48 and a residue stay below 2^53
    }
    return sum % p;
  });
}

/** The largest k with 2^k <= a/b. */
function floorLog2(a, b) {
  let k = 0;
  for (; a < b; a *= 2n) k--;
  for (; a >= 2n * b; b *= 2n) k++;
  return k;
}

/** A positive double as [numerator, denominator]. */
function fraction(value) {
  let denominator = 1n;
  for (; !Number.isInteger(value); value *= 2) denominator *= 2n;
  return [BigInt(value), denominator];
}

/** Fraction bits of the grids: `scales` of the page, without the limits, which are the server's. */
export function scales(p, primes) {
  const [[x, xUnit], [y, yUnit]] = [fraction(p.features), fraction(p.labels)];
  const sumBits = p.perDevice > 1 ? (p.perDevice - 1).toString(2).length : 0;
  const significant = Math.min(20, Math.floor((53 - sumBits) / 2));
  const [features, labels] = [significant - 1 - floorLog2(x, xUnit), significant - 1 - floorLog2(y, yUnit)];
  // M/8 over rows x y, and over that times isqrt(d) for X'X e: x^2 norm is isqrt(d) x y
  const [room, full] = [primes.reduce((m, q) => m * BigInt(q), xUnit * yUnit), 8n * BigInt(p.rows) * x * y];
  const natural = floorLog2(room, full * BigInt(Math.floor(Math.sqrt(p.d))));
  const gram = Math.min(Math.ceil(natural / 2), 2 * features);
  return { features, labels, gram, constant: Math.min(floorLog2(room, 2n * full), features + labels) };
}

/** The nearest whole number of 2^-bits; halves go to the even one. */
function onGrid(value, bits) {
  const scaled = value * 2 ** bits;
  const [down, rest] = [Math.floor(scaled), scaled - Math.floor(scaled)];
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
}

/** X'X at these places, and the constant part: -X'Y row by row, then the number of rows. */
export function statistics(p, bits, X, Y, places) {
  const fits = (rows, width) => rows.length === X.length && rows.every((row) => row.length === width);
  must(fits(X, p.d) && fits(Y, p.outputs), 'rows have the columns that were agreed on');
  const columns = (rows, width, bound, fractionBits) => Array.from({ length: width }, (_, i) => Float64Array.from(
    rows.slice(0, p.perDevice), (row) => onGrid(Math.max(-bound, Math.min(bound, row[i])), fractionBits)));
  const [x, y] = [columns(X, p.d, p.features, bits.features), columns(Y, p.outputs, p.labels, bits.labels)];
  const dot = (a, b) => { let sum = 0; for (let r = 0; r < a.length; r++) sum += a[r] * b[r]; return sum; };
  const gram = places.map((at) => onGrid(dot(x[Math.floor(at / p.d)], x[at % p.d]), bits.gram - 2 * bits.features));
  const cross = x.flatMap((a) => y.map((b) => -onGrid(dot(a, b), bits.constant - bits.features - bits.labels)));
  return [gram, [...cross, x[0].length]];
}
