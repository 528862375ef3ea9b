// Word lists of the made-up worlds. Plain data: more words make a broader base, nothing else hangs on them.

const list = (text: string): string[] => text.trim().split(/\s+/);

/** Singular nouns whose plural is formed with an s. */
export const nouns = list(`
  ticket report book song recipe order letter photo video invoice parcel article record file note page card form plan map
  poem lesson model dataset image folder project message memo patent draft chapter episode meeting flight room offer
  sample contract device sensor job build release issue comment post thread album track podcast course exam student
  patient visit drug test result house car bike boat route trip hotel menu product shelf-item bill payment account report
  document paper-clip film theorem proof survey preprint slide poster thesis review bulletin notebook journal manual
`).filter((noun) => !noun.includes("-"));

/** An action: base form, and the participle in "the ticket just archived". */
export const verbs: readonly [base: string, past: string][] = list(`
  archive/archived print/printed publish/published rename/renamed copy/copied move/moved lock/locked unlock/unlocked
  tag/tagged export/exported import/imported convert/converted compress/compressed restore/restored remove/removed
  upload/uploaded share/shared approve/approved reject/rejected merge/merged scan/scanned index/indexed sign/signed
  encrypt/encrypted verify/verified measure/measured repair/repaired pack/packed ship/shipped weigh/weighed
  label/labelled record/recorded close/closed reopen/reopened pause/paused resume/resumed save/saved load/loaded
  download/downloaded translate/translated summarize/summarized extract/extracted analyze/analyzed fetch/fetched
  store/stored backup/saved render/rendered clean/cleaned sort/sorted rate/rated pin/pinned flag/flagged
`).map((pair) => pair.split("/") as [string, string]);

/** What can be read about an item: "the status of the third ticket". */
export const facets = list(`
  status history owner price size notes images tables charts pages comments links summary details location stock score
  rating permissions schedule content cache figures references text metadata preview sections authors language version
  progress state origin weight color address deadline topics keywords audio outline errors warnings checksum
`);

export const readVerbs = list("get read check show fetch open inspect view load look-up").map((verb) =>
  verb.replace("-", " "),
);

/** Actions that no tool of these worlds has. */
export const foreignActions = [
  "email",
  "phone",
  "fax",
  "invite the author of",
  "book a flight for",
  "buy",
  "sell",
  "cook",
  "paint",
  "pay for",
  "send a text message about",
  "post a tweet about",
  "write a letter to the owner of",
  "find the mailbox of",
  "call the writer of",
];

/** Words of titles; capitalised when used. */
export const titleWords = list(`
  learning state across handover marionette image restoration uncertainty aware agent policy reward graph neural network
  deep large language model robust sparse fast efficient memory attention planning search retrieval reasoning vision
  speech audio motion control robot hand walking grasp driving traffic city weather river ocean forest mountain garden
  winter summer night morning light shadow color silver golden broken hidden open closed simple complex random ordered
  small quick silent early late modern ancient digital quantum classical linear convex dual primal adaptive dynamic
  static local global shared private secure trusted causal temporal spatial semantic visual textual molecular protein
  drug cell gene brain signal noise filter kernel tensor matrix vector field wave particle energy climate solar battery
  market price auction game theory proof logic program compiler cache system cloud edge mobile sensor camera radar map
  benchmark dataset survey review method approach framework tool library design study analysis test error failure bias
  fairness privacy attack defense detection segmentation tracking prediction generation translation summarization
  alignment feedback human teacher student curriculum transfer zero few shot self world multi cross inter auto bridge
  window door table letter story poem song journey island harbor castle tower machine engine clock mirror paper stone
  iron glass cotton sugar bread coffee orange apple violin piano drum dance theatre film hero ghost dragon wolf falcon
`);

/** Small words inside titles, as they are. */
export const titleLinks = list("of for in with and the a from to via under over between without beyond against");

/** Two-letter codes of groups. */
export const codes = list(`
  AI AR CC CE CG CL CR CV CY DB DC DL DM DS ET FL GL GR GT HC IR IT LG LO MA MM MS NA NE NI OH OS PF PL RO SC SD SE SI SY
  BX BQ DK EN ES FR GA HK JP KM KX LU MX NO NZ PQ QA QT RW SK TR TX UK US UZ VA VN WE XQ YT ZA ZB BE AT CH DE FI GB HU IE
`);

export const codeKinds = list("aspect group area branch field topic region team section category");
export const windowUnits = list("days hours weeks months");
export const limitNames = list("max_results limit max_items top_k count max_count number");
export const refNames = list("ref ref ref ref ref item target which entry item_ref");
export const queryNames = list("query query query text phrase words keywords");

/** Optional true/false parameters with the words that ask for them. `off` asks for false. */
export const flags: readonly { name: string; on: string[]; off: string[] }[] = [
  {
    name: "force",
    on: ["by force", "even if it was done before", "again, forced", "with force"],
    off: ["without force"],
  },
  {
    name: "keep_copy",
    on: ["and keep the copy", "keeping a copy"],
    off: ["without keeping a copy", "and keep no copy"],
  },
  {
    name: "keep_both",
    on: ["keeping both versions", "and keep both versions"],
    off: ["and do not keep both versions"],
  },
  { name: "notify", on: ["and notify the owner", "with notify on"], off: ["without a notice", "and notify nobody"] },
  { name: "dry_run", on: ["as a dry run", "as a trial only"], off: ["for real, not as a dry run"] },
  { name: "verbose", on: ["with verbose output", "in verbose mode"], off: ["quietly, not verbose"] },
  {
    name: "save_file",
    on: ["and save a file", "saving it to a file"],
    off: ["without saving a file", "and save no file", "writing no file"],
  },
  { name: "include_drafts", on: ["including drafts", "with drafts"], off: ["without drafts", "leaving out drafts"] },
  { name: "sorted", on: ["sorted", "in sorted order"], off: ["unsorted", "not sorted"] },
  { name: "overwrite", on: ["overwriting the old one", "and overwrite what is there"], off: ["without overwriting"] },
  { name: "public", on: ["as public", "visible to the public"], off: ["not public"] },
];

/** Optional whole numbers; "#" stands for the number. */
export const amounts: readonly { name: string; most: number; says: string[] }[] = [
  { name: "threads", most: 32, says: ["with # threads", "using # threads", "on # threads"] },
  { name: "copies", most: 20, says: ["in # copies", "with # copies"] },
  { name: "max_words", most: 300, says: ["in at most # words", "within # words", "in # words", "of up to # words"] },
  { name: "page", most: 40, says: ["on page #", "at page #", "starting on page #"] },
  { name: "figure_no", most: 9, says: ["for figure #", "with figure #", "and take figure #"] },
  { name: "retries", most: 10, says: ["with # retries", "retrying # times"] },
  { name: "timeout", most: 120, says: ["with a timeout of #", "within # seconds"] },
  { name: "level", most: 9, says: ["at level #", "with level #"] },
  { name: "width", most: 900, says: ["at width #", "# wide"] },
];

/** Optional choices; "#" stands for the value. */
export const choices: readonly { name: string; values: string[]; says: string[] }[] = [
  {
    name: "section",
    values: ["abstract", "method", "result", "conclusion", "intro", "appendix"],
    says: ["the # section", "only the # part", "section #"],
  },
  {
    name: "style",
    values: ["tldr", "structured", "bullet", "plain", "formal", "short"],
    says: ["in # style", "in the # form", "as #"],
  },
  {
    name: "question",
    values: ["describe", "axes", "trend", "colors", "legend"],
    says: ["with the question #", "asking for #", "for the # question"],
  },
  { name: "format", values: ["pdf", "html", "text", "json", "csv"], says: ["as #", "in # format"] },
  { name: "priority", values: ["low", "normal", "high", "urgent"], says: ["with # priority", "at # priority"] },
  {
    name: "service",
    values: ["bing", "google", "deepl", "local", "azure", "yandex"],
    says: ["through #", "using #", "with the # service"],
  },
  { name: "language", values: ["english", "german", "french", "chinese", "spanish"], says: ["in #", "into #"] },
  { name: "color", values: ["red", "green", "blue", "black", "white"], says: ["in #", "with color #"] },
];
