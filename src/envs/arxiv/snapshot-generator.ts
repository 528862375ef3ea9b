// Makes the synthetic snapshot: invented papers, so that nothing needs the network and every text is ours.
// Again, byte for byte: npx tsx src/envs/arxiv/snapshot-generator.ts
import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createRandom, type Random } from "../../core/random.ts";
import { writeWhole } from "../../core/whole-file.ts";
import { DEFAULT_SNAPSHOT } from "./options.ts";
import {
  type FigureRecord,
  normalizeQuery,
  type Paper,
  resolveDataFile,
  type Section,
  type Snapshot,
  sha256,
  snapshotHash,
  snapshotText,
} from "./snapshot.ts";
import { checkSnapshot } from "./snapshot-validator.ts";
import { answersOf, capital, summariesOf } from "./summaries.ts";

export const DEFAULT_SEED = 20260820;

/** Queries with a recorded pool, each for the last 30 days. */
export const KEYWORD_QUERIES = [
  "all:agentic reinforcement learning",
  "all:large language model",
  "all:retrieval augmented generation",
] as const;
const KEYWORD_DAYS = 30;
const KEYWORD_DEPTH = 14;

const CREATED_AT = "2026-08-20 00:00:00";

type Area = "AI" | "CL" | "CV" | "LG" | "RO" | "CR";

/** Papers in the pool of each area. */
const POOL_SIZES: Record<Area, number> = { AI: 26, CL: 16, CV: 14, LG: 14, RO: 26, CR: 14 };
const ALL_POOL_SIZE = 16;

/** A paper this far up in a pool has every section and at least two figures: tasks refer to it. */
const COMPLETE_DEPTH = 10;

/**
 * The papers that tasks refer to by id or by title words, at the head of their pools. "Learning" alone must hit
 * another paper than "Learning State" does, and so on: a policy that shortens a title gets the wrong one.
 */
const ANCHORS: Record<"AI" | "CV", { id: string; title: string; method: string; object: string }[]> = {
  AI: [
    {
      id: "2608.14539v1",
      title: "Curriculum Learning for Visual Planning Agents",
      method: "Curriculum Learning",
      object: "Visual Planning",
    },
    {
      id: "2608.14530v1",
      title: "Marionette: Finite State Control of Puppet Agents",
      method: "Finite State Control",
      object: "Puppet Agents",
    },
    {
      id: "2608.14528v1",
      title: "Learning State Abstractions from Tool Logs",
      method: "State Abstraction",
      object: "Tool Use",
    },
    {
      id: "2608.14521v1",
      title: "Keeping State Across Interrupted Sessions",
      method: "Session Memory",
      object: "Interrupted Sessions",
    },
    {
      id: "2608.14517v1",
      title: "Handover: Passing Plans Between Agents",
      method: "Plan Passing",
      object: "Agent Teams",
    },
  ],
  CV: [
    {
      id: "2608.14546v1",
      title: "An Image Prior for Scenes at Night",
      method: "Night Priors",
      object: "Dark Scenes",
    },
    {
      id: "2608.14543v1",
      title: "Image Restoration in Four Diffusion Steps",
      method: "Short Diffusion",
      object: "Damaged Photos",
    },
    {
      id: "2608.14539v1",
      title: "Curriculum Learning for Visual Planning Agents",
      method: "Curriculum Learning",
      object: "Visual Planning",
    },
    {
      id: "2608.14512v1",
      title: "An Uncertainty-Aware Depth Model for Drones",
      method: "Depth Intervals",
      object: "Drone Flights",
    },
  ],
};

/** What an area writes about: the words that titles and texts are put together from. */
const VOCABULARY: Record<Area, { methods: string[]; objects: string[]; metric: string; data: string[] }> = {
  AI: {
    methods: [
      "Goal Trees",
      "Plan Repair",
      "Rule Induction",
      "Belief Tracking",
      "Cost Bounded Search",
      "Skill Libraries",
    ],
    objects: ["Office Workflows", "Tool Use", "Board Games", "Timetables", "Team Planning", "Diagnosis"],
    metric: "success rate",
    data: ["Quarry-12", "DeskBench", "PlanMix"],
  },
  CL: {
    methods: [
      "Token Pruning",
      "Answer Voting",
      "Citation Checks",
      "Sparse Prompts",
      "Dialogue Memory",
      "Glossary Decoding",
    ],
    objects: ["Long Documents", "Low Resource Languages", "Open Questions", "Meeting Notes", "Legal Texts"],
    metric: "answer accuracy",
    data: ["Inkwell-QA", "ParlaSum", "TermLine"],
  },
  CV: {
    methods: ["Patch Routing", "Shape Tokens", "Light Fields", "Mask Refinement", "Motion Layers", "Feature Splats"],
    objects: ["Street Scenes", "Medical Scans", "Satellite Photos", "Hand Drawings", "Sports Video"],
    metric: "mean overlap",
    data: ["LanternSet", "TileMap-4", "ScanHouse"],
  },
  LG: {
    methods: [
      "Gradient Sketches",
      "Step Size Tuning",
      "Weight Sharing",
      "Noise Schedules",
      "Loss Smoothing",
      "Data Pruning",
    ],
    objects: ["Small Datasets", "Tabular Data", "Time Series", "Deep Networks", "Streaming Data"],
    metric: "test accuracy",
    data: ["TabForty", "DriftLab", "SeriesPack"],
  },
  RO: {
    methods: ["Contact Maps", "Grasp Fields", "Gait Libraries", "Force Feedback", "Route Sketches", "Tactile Memory"],
    objects: [
      "Kitchen Robots",
      "Warehouse Arms",
      "Legged Walkers",
      "Delivery Drones",
      "Surgical Tools",
      "Soft Grippers",
    ],
    metric: "completion rate",
    data: ["ArmYard", "StairSet", "PickLane"],
  },
  CR: {
    methods: ["Key Rotation", "Trace Hashing", "Taint Tracking", "Prompt Filters", "Proof Caching", "Sandbox Probes"],
    objects: ["Package Registries", "Mobile Wallets", "Chat Assistants", "Smart Meters", "Cloud Logs"],
    metric: "detection rate",
    data: ["LeakTrail", "VaultMix", "ProbeNine"],
  },
};

const GIVEN = [
  "Ana",
  "Bo",
  "Chidi",
  "Dora",
  "Emre",
  "Farah",
  "Goran",
  "Hana",
  "Ivo",
  "Jun",
  "Kaia",
  "Lior",
  "Mina",
  "Nils",
];
const FAMILY = [
  "Abel",
  "Brandt",
  "Costa",
  "Duarte",
  "Eriksen",
  "Fujita",
  "Gupta",
  "Horvat",
  "Ilves",
  "Jansen",
  "Kovac",
  "Lindqvist",
];

/** What the sentences of a paper are about. */
interface Subject {
  id: string;
  area: Area;
  title: string;
  method: string;
  object: string;
  metric: string;
  data: string;
  /** Percent. */
  before: number;
  after: number;
  /** Place in its pool, from 1. */
  position: number;
  keywords: string[];
}

/** The snapshot of a seed: equal seeds, equal bytes. */
export function generateSnapshot(seed: number = DEFAULT_SEED): Snapshot {
  const random = createRandom(`arxiv-snapshot/${seed}`);
  const areas = Object.keys(POOL_SIZES) as Area[];
  const subjects = new Map<string, Subject>();
  const recent: Record<string, string[]> = {};

  // Ids fall as papers get older; those between the anchors stay free.
  let number = 14490;
  for (const area of areas) {
    const titles = random.fork(`titles/${area}`).shuffle(titlesOf(area));
    const anchors = area === "AI" || area === "CV" ? ANCHORS[area] : [];
    recent[area] = Array.from({ length: POOL_SIZES[area] }, (_, index) => {
      const anchor = anchors[index];
      if (!anchor) number -= 1 + random.int(9);
      const id = anchor?.id ?? `2608.${number}v${index > COMPLETE_DEPTH && random.int(4) === 0 ? 2 : 1}`;
      if (!subjects.has(id)) {
        subjects.set(id, newSubject(id, area, anchor ?? titles[index]!, index + 1, random));
      }
      return id;
    });
  }
  const rounds = Array.from({ length: ALL_POOL_SIZE }, (_, index) => areas.map((area) => recent[area]![index]!)).flat();
  recent["*"] = [...new Set(rounds)].slice(0, ALL_POOL_SIZE);

  const keyword = Object.fromEntries(
    KEYWORD_QUERIES.map((query) => {
      const topic = query.slice("all:".length);
      const homes: Area[] = topic.startsWith("agentic") ? ["AI", "LG", "RO"] : ["CL", "AI"];
      const candidates = homes.flatMap((area) => recent[area]!);
      const ids = random.fork(query).shuffle(candidates).slice(0, KEYWORD_DEPTH);
      for (const id of ids) subjects.get(id)!.keywords.push(topic);
      return [sha256(normalizeQuery(query)), { query, days: KEYWORD_DAYS, ids }];
    }),
  );

  const snapshot: Omit<Snapshot, "sha256"> = {
    version: 1,
    created_at: CREATED_AT,
    recorder: `synthetic, seed ${seed}`,
    papers: {},
    pools: { recent, keyword },
    content: {},
    summary: {},
    figures: {},
    figure_qa: {},
  };
  for (const subject of subjects.values()) {
    const stream = random.fork(subject.id);
    const sections = sectionsOf(subject, stream);
    const { id } = subject;
    snapshot.papers[id] = paperOf(subject, sections.abstract!, stream);
    snapshot.content[id] = { default: `${subject.title}\n\n${sections.abstract}`, ...sections };
    snapshot.summary[id] = summariesOf(sections);
    const figures = figuresOf(subject, stream);
    snapshot.figures[id] = { count: figures.length, figures };
    snapshot.figure_qa[id] = answersOf(figures);
  }
  return { ...snapshot, sha256: snapshotHash(snapshot) };
}

function titlesOf(area: Area): { title: string; method: string; object: string }[] {
  const { methods, objects } = VOCABULARY[area];
  return methods.flatMap((method, row) =>
    objects.map((object, column) => {
      const forms = [`${method} for ${object}`, `${object} with ${method}`, `Scaling ${method} in ${object}`];
      return { title: forms[(row + column) % forms.length]!, method, object };
    }),
  );
}

function newSubject(
  id: string,
  area: Area,
  { title, method, object }: { title: string; method: string; object: string },
  position: number,
  random: Random,
): Subject {
  const { metric, data } = VOCABULARY[area];
  const before = 40 + random.int(30);
  return {
    id,
    area,
    title,
    method: method.toLowerCase(),
    object: object.toLowerCase(),
    metric,
    data: random.pick(data),
    before,
    after: before + 4 + random.int(20),
    position,
    keywords: [],
  };
}

function sectionsOf(subject: Subject, random: Random): Partial<Record<Section, string>> {
  const { method, object, metric, data, before, after, keywords, position } = subject;
  const sections: Partial<Record<Section, string>> = {
    abstract: [
      random.pick([
        `Work on ${object} still depends on settings chosen by hand.`,
        `Current systems for ${object} lose track when conditions change.`,
        `Errors in ${object} are costly and often found too late.`,
      ]),
      `We study ${method} without any labels beyond those at hand.`,
      ...keywords.map((topic) => `The setting is that of ${topic}.`),
      `On ${data} the ${metric} rises from ${before} to ${after} percent.`,
    ].join(" "),
    method: [
      random.pick([
        `The method first sorts the inputs by difficulty and then works on the easy ones.`,
        `The method keeps a short record of past decisions and looks it up before each new one.`,
        `The method splits the problem into parts that are solved one after another.`,
      ]),
      random.pick([
        `A small network of ${2 + random.int(6)} layers decides when to stop.`,
        `A threshold of ${1 + random.int(9)} percent decides when a part is done.`,
      ]),
      `Training takes ${2 + random.int(30)} hours on one accelerator.`,
    ].join(" "),
    result: [
      `On ${data} we compare with ${2 + random.int(5)} baselines over ${3 + random.int(5)} seeds.`,
      `The ${metric} grows by ${after - before} points, most of it on the hardest third.`,
      random.pick([
        `Without the stopping rule the gain halves.`,
        `With a tenth of the data two thirds of the gain remain.`,
        `The running time stays within ${5 + random.int(20)} percent of the fastest baseline.`,
      ]),
    ].join(" "),
    conclusion: [
      `We find ${method} useful for ${object} at little cost.`,
      random.pick([
        `It still fails when inputs arrive out of order.`,
        `It was not tested outside of ${data}.`,
        `It needs a clean start to work well.`,
      ]),
      `Code and data will be released.`,
    ].join(" "),
  };
  const droppable = ["method", "result", "conclusion"] as const;
  const lost = random.pick(droppable);
  if (position > COMPLETE_DEPTH && random.int(3) === 0) delete sections[lost];
  return sections;
}

function paperOf(subject: Subject, abstract: string, random: Random): Paper {
  const { id, area, title, position } = subject;
  const age_hours = position * 11 + random.int(11);
  const published = new Date(Date.parse(`${CREATED_AT.replace(" ", "T")}Z`) - age_hours * 3_600_000);
  const time = published.toISOString().slice(0, 19).replace("T", " ");
  const names = random.shuffle(GIVEN).slice(0, 2 + random.int(3));
  const categories = id === ANCHORS.AI[0]!.id ? ["cs.AI", "cs.CV"] : [`cs.${area}`];
  return {
    id,
    title,
    authors: names.map((given) => `${given} ${random.pick(FAMILY)}`),
    summary: abstract.length > 200 ? `${abstract.slice(0, 200)}...` : abstract,
    published: time,
    updated: time,
    pdf_url: `https://arxiv.org/pdf/${id}`,
    primary_category: categories[0]!,
    categories,
    comment: random.int(3) === 0 ? `${8 + random.int(12)} pages` : null,
    links: [`https://arxiv.org/abs/${id}`],
  };
}

function figuresOf(subject: Subject, random: Random): FigureRecord[] {
  const { id, method, metric, data, position } = subject;
  const count = position <= COMPLETE_DEPTH ? 2 + random.int(2) : random.int(4);
  const steps = 1000 * (1 + random.int(9));
  const captions = random.shuffle([
    `Overview of ${method}. Inputs enter on the left and decisions leave on the right.`,
    `${capital(metric)} on ${data} by training step. The x axis shows steps and the y axis the ${metric}. It rises until step ${steps} and then stays level.`,
    `Running time on ${data} by input size. The x axis shows the size and the y axis seconds. It grows in a straight line.`,
    `Share of errors on ${data} by kind. The x axis shows the kind and the y axis the share.`,
  ]);
  return Array.from({ length: count }, (_, index) => {
    const figure_no = index + 1;
    return {
      figure_no,
      page: 2 + index * 2 + random.int(2),
      path: `figures/${id}/figure-${figure_no}.png`,
      width: 640 + 32 * random.int(12),
      height: 360 + 24 * random.int(10),
      caption: `Figure ${figure_no}: ${captions[index]}`,
    };
  });
}

/** Writes the snapshot of a seed to a file, once it is known to meet every constraint. */
export function writeSnapshot(path: string = resolveDataFile(DEFAULT_SNAPSHOT), seed: number = DEFAULT_SEED): Snapshot {
  const snapshot = generateSnapshot(seed);
  checkSnapshot(snapshot, `seed ${seed}`);
  writeWhole(path, snapshotText(snapshot));
  return snapshot;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const snapshot = writeSnapshot(process.argv[2]);
  console.error(`${process.argv[2] ?? DEFAULT_SNAPSHOT}: ${Object.keys(snapshot.papers).length} papers`);
}
