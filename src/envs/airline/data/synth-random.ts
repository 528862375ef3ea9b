// The generator's own stream of numbers (airline.md 1.5): integers only, so that every platform draws the same.

/** FNV-1a, 32 bits, of a text's UTF-8 bytes. */
export function fnv1a32(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

export interface SynthRandom {
  /** Uniform in [0, 2^32). */
  uint32(): number;
  /** Uniform integer from `low` to `high`, both included. */
  int(low: number, high: number): number;
  /** True `n` times out of `of`. */
  chance(n: number, of: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
  /** A shuffled copy. */
  shuffle<Item>(items: readonly Item[]): Item[];
  /** One of the keys, each as often as its weight (a positive integer) says. */
  weighted<Key>(weights: readonly (readonly [Key, number])[]): Key;
}

/** The generator xoshiro128** from a state of four 32-bit words, not all of them 0. */
export function xoshiro128([a, b, c, d]: [number, number, number, number]): () => number {
  const rotate = (value: number, by: number) => (value << by) | (value >>> (32 - by));
  return () => {
    const result = Math.imul(rotate(Math.imul(b, 5), 7), 9);
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = rotate(d, 11);
    return result >>> 0;
  };
}

/** xoshiro128**, its state four outputs of splitmix32 on the hash of "seed/stream". */
export function synthRandom(seed: string, stream: string): SynthRandom {
  let counter = fnv1a32(`${seed}/${stream}`);
  const splitmix32 = () => {
    counter = (counter + 0x9e3779b9) | 0;
    let mixed = counter ^ (counter >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return mixed ^ (mixed >>> 15);
  };
  const uint32 = xoshiro128([splitmix32(), splitmix32(), splitmix32(), splitmix32()]);
  const random: SynthRandom = {
    uint32,
    int(low, high) {
      const count = high - low + 1;
      if (!Number.isInteger(low) || !Number.isInteger(high) || count < 1 || count > 2 ** 32)
        throw new RangeError(`int(${low}, ${high}): expected two integers, the first one not above the second`);
      const limit = 2 ** 32 - (2 ** 32 % count); // draws from here on would favour small numbers
      let draw = uint32();
      while (draw >= limit) draw = uint32();
      return low + (draw % count);
    },
    chance: (n, of) => random.int(1, of) <= n,
    pick: (items) => items[random.int(0, items.length - 1)]!,
    shuffle(items) {
      const copy = [...items];
      for (let i = copy.length - 1; i > 0; i--) {
        const j = random.int(0, i);
        [copy[i], copy[j]] = [copy[j]!, copy[i]!];
      }
      return copy;
    },
    weighted(weights) {
      let left = random.int(
        1,
        weights.reduce((total, [, weight]) => total + weight, 0),
      );
      for (const [key, weight] of weights) {
        left -= weight;
        if (left <= 0) return key;
      }
      throw new RangeError("weighted: expected positive integers as weights");
    },
  };
  return random;
}
