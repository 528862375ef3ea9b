import { createHash } from "node:crypto";

/** A seeded stream of numbers. Always passed in, never global. */
export interface Random {
  /** Uniform in [0, 1), 32 bits. */
  next(): number;
  /** Uniform integer in [0, below). `below` is a positive integer. */
  int(below: number): number;
  pick<Item>(items: readonly Item[]): Item;
  /** A shuffled copy (Fisher–Yates). */
  shuffle<Item>(items: readonly Item[]): Item[];
  /** A stream of its own for a part: what one part draws does not move another's numbers. */
  fork(label: string | number): Random;
}

/** The generator is sfc32, its state the SHA-256 of the seed: equal seeds, equal streams, on every machine. */
export function createRandom(seed: string | number): Random {
  const digest = createHash("sha256").update(`trestle:${seed}`).digest();
  let [a, b, c, counter] = [0, 4, 8, 12].map((offset) => digest.readUInt32LE(offset)) as [
    number,
    number,
    number,
    number,
  ];

  function uint32(): number {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    c |= 0;
    return sum >>> 0;
  }
  for (let i = 0; i < 12; i++) uint32();

  const random: Random = {
    next: () => uint32() / 2 ** 32,
    int(below) {
      if (!Number.isInteger(below) || below < 1) throw new RangeError(`random.int(${below}): expected an integer ≥ 1`);
      return Math.floor(random.next() * below);
    },
    pick: (items) => items[random.int(items.length)]!,
    shuffle(items) {
      const copy = [...items];
      for (let i = copy.length - 1; i > 0; i--) {
        const j = random.int(i + 1);
        [copy[i], copy[j]] = [copy[j]!, copy[i]!];
      }
      return copy;
    },
    fork: (label) => createRandom(`${seed}/${label}`),
  };
  return random;
}
