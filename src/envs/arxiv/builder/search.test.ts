import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_SNAPSHOT } from "../options.ts";
import { loadSnapshot, type Snapshot } from "../snapshot.ts";
import { ApiError, FeedError, parseFeed } from "./atom.ts";
import { entryOf, errorFeed, type FakeArxiv, feedOf, startArxiv, wrapFeed } from "./fixtures/arxiv-server.ts";
import { fakeClock } from "./fixtures/fake-clock.ts";
import { createHttp } from "./http.ts";
import { fileName, parsePaperId } from "./paper-id.ts";
import { keywordQuery, recentQuery, submittedBetween, within } from "./query.ts";
import { papersById, searchPapers } from "./search.ts";

const loaded = loadSnapshot(DEFAULT_SNAPSHOT);
const ID = "2608.14528v1";

/** 250 papers in one pool. */
const many: Snapshot = {
  ...loaded,
  papers: Object.fromEntries(
    Array.from({ length: 250 }, (_, index) => {
      const id = `2608.${String(index).padStart(5, "0")}v1`;
      return [id, { ...loaded.papers[ID]!, id }];
    }),
  ),
};
const ids = Object.keys(many.papers);
many.content = Object.fromEntries(ids.map((id) => [id, loaded.content[ID]!]));
many.pools = { ...loaded.pools, recent: { AI: ids } };

let server: FakeArxiv;
beforeAll(async () => {
  server = await startArxiv(many);
});
afterAll(() => server.close());

function search(fault: FakeArxiv["fault"], query = "cat:cs.AI", limit = 250) {
  server.fault = fault;
  server.requests.length = 0;
  const clock = fakeClock();
  const http = createHttp({ clock, interval_ms: 3000, timeout_ms: 5000, retries: 2, tell: () => {} });
  return searchPapers(http, server.url, { query, sort_by: "relevance", limit }, 100, "pool AI");
}

describe("AX-04: pages", () => {
  test("all of them, in order", async () => {
    expect((await search(() => null)).map(({ paper }) => paper.id)).toEqual(ids);
    expect(server.requests.length).toBe(3);
    expect((await search(() => null, "cat:cs.AI", 130)).map(({ paper }) => paper.id)).toEqual(ids.slice(0, 130));
    expect(server.requests[1]!.path).toContain("start=100&max_results=30");
  });

  test("an empty page 2 is asked for again", async () => {
    const found = await search((index) => (index === 1 ? "empty" : null));
    expect(found.length).toBe(250);
  });

  test("one that stays empty is an error that says how far it came", async () => {
    await expect(search((index) => (index >= 1 ? "empty" : null))).rejects.toThrow(
      /pool AI, from 100: the page came back empty: 100 of 250 papers came so far \(3 tries/,
    );
  });

  test("a page that is shorter than asked for is gone on from", async () => {
    const short = (fault: number) => feedOf(many, ids.slice(fault, fault + 1), 3, fault);
    let start = 0;
    server.feeds.set("cat:cs.XX", short(0));
    const http = createHttp({ clock: fakeClock(), interval_ms: 0, timeout_ms: 5000, retries: 0, tell: () => {} });
    server.fault = (_, { path }) => {
      start = Number(/start=(\d+)/.exec(path)![1]);
      server.feeds.set("cat:cs.XX", short(start));
      return null;
    };
    const wanted = { query: "cat:cs.XX", sort_by: "relevance", limit: 50 } as const;
    const found = await searchPapers(http, server.url, wanted, 100, "x");
    expect(found.map(({ paper }) => paper.id)).toEqual(ids.slice(0, 3));
  });

  test("nothing found is no empty list", async () => {
    server.feeds.set("cat:cs.YY", wrapFeed("", 0));
    await expect(search(() => null, "cat:cs.YY")).rejects.toThrow(/no paper was found \(3 tries/);
  });

  test("a paper that two pages have counts once", async () => {
    server.feeds.set("cat:cs.ZZ", feedOf(many, [ids[0]!, ids[1]!, ids[0]!], 3, 0));
    expect((await search(() => null, "cat:cs.ZZ")).map(({ paper }) => paper.id)).toEqual(ids.slice(0, 2));
  });
});

test("AX-10: the API's own error is an error, at once", async () => {
  expect(() => parseFeed(errorFeed("incorrect id format for x"))).toThrow(ApiError);
  server.feeds.set("cat:cs.EE", errorFeed("incorrect id format for x"));
  await expect(search(() => null, "cat:cs.EE")).rejects.toThrow(/the arXiv API refuses: incorrect id format for x/);
  expect(server.requests.length).toBe(1);
});

test("by id: those that arXiv has", async () => {
  server.fault = () => null;
  const http = createHttp({ clock: fakeClock(), interval_ms: 0, timeout_ms: 5000, retries: 0, tell: () => {} });
  const found = await papersById(http, server.url, [ids[3]!, "2608.99999v1"]);
  expect(found.map(({ paper }) => paper.id)).toEqual([ids[3]]);
});

describe("feeds", () => {
  const entry = (changes: (text: string) => string) => wrapFeed(changes(entryOf(loaded, ID)), 1);

  test("AX-09: one entry is a list; entities and line breaks are read", () => {
    const title = "A &amp; B &#x2013; &lt;C&gt; &#8217;s\n  continued";
    const feed = parseFeed(entry((text) => text.replace(/<title>[^<]*<\/title>/, `<title>${title}</title>`)));
    expect(feed.entries.map(({ paper }) => paper.title)).toEqual(["A & B – <C> ’s continued"]);
    expect(feed.total).toBe(1);
  });

  test("a record has all its fields", () => {
    const { paper, abstract } = parseFeed(
      entry((text) => text.replace("<updated>2026-08-18T14:00:00Z", "<updated>2026-08-19T22:30:00-04:00")),
    ).entries[0]!;
    expect(paper).toEqual({
      ...loaded.papers[ID]!,
      updated: "2026-08-20 02:30:00",
      links: [`https://arxiv.org/abs/${ID}`, `https://arxiv.org/pdf/${ID}`],
    });
    expect(abstract).toBe(loaded.content[ID]!.abstract);
  });

  test("the API's younger form, with its namespaces at the top, reads the same", () => {
    const old = feedOf(loaded, [ID], 1, 0);
    const young = old
      .replaceAll(/ xmlns:(?:opensearch|arxiv)="[^"]*"/g, "")
      .replace(/^<\?xml [^?]*\?>/, "<?xml version='1.0' encoding='UTF-8'?>")
      .replace(
        "<feed ",
        '<feed xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/" xmlns:arxiv="http://arxiv.org/schemas/atom" ',
      );
    expect(young).not.toBe(old);
    expect(parseFeed(young)).toEqual(parseFeed(old));
    expect(parseFeed(young.replace(/<entry>[\s\S]*<\/entry>/, "").replace(">1<", ">0<"))).toEqual({
      total: 0,
      entries: [],
    });
  });

  test("a title may be a number, a comment and a DOI may be there or not, one author is a list", () => {
    const feed = parseFeed(
      entry((text) =>
        text
          .replace(/<title>[^<]*/, "<title>1984")
          .replace(
            /(<author>\s*<name>)[^<]*(?:<[^<]*)*?(<\/author>)(?:\s*<author>[\s\S]*?<\/author>)*/,
            "$11984</name>$2",
          )
          .replace(
            "<arxiv:primary_category",
            '<arxiv:comment>12 pages</arxiv:comment><link title="doi" href="http://dx.doi.org/1" rel="related"/><arxiv:primary_category',
          ),
      ),
    );
    expect(feed.entries[0]!.paper).toMatchObject({ title: "1984", authors: ["1984"], comment: "12 pages" });
  });

  test("a long abstract is cut to 200 letters in the record, never in half a letter", () => {
    const letters = `${"x".repeat(199)}𝔸${"y".repeat(50)}`;
    const { paper, abstract } = parseFeed(entry((text) => text.replace(/<summary>[^<]*/, `<summary>${letters}`)))
      .entries[0]!;
    expect(abstract).toBe(letters);
    expect(paper.summary).toBe(`${"x".repeat(199)}...`);
  });

  test.each([
    ["cut short", (text: string) => text.slice(0, -40)],
    ["nothing", () => ""],
    ["words", () => "Rate exceeded."],
    ["a page", () => "<html><body><p>one moment</p></body></html>"],
    ["an entry without a date", (text: string) => text.replace(/<published>[^<]*<\/published>/, "")],
    ["an entry with no version", (text: string) => text.replaceAll(`abs/${ID}</id>`, "abs/2608.14528</id>")],
    ["an entry of something else", (text: string) => text.replaceAll(`abs/${ID}</id>`, "list/cs.AI/recent</id>")],
    ["a total that is no number", (text: string) => text.replace(/(<opensearch:totalResults[^>]*>)1/, "$1many")],
  ])("%s is no feed", (_, change) => {
    expect(() => parseFeed(change(entry((text) => text)))).toThrow(FeedError);
  });
});

describe("AX-01: ids", () => {
  test.each([
    ["2608.14528v1", "2608.14528", 1],
    ["0704.0001", "0704.0001", null],
    ["http://arxiv.org/abs/2608.14528v12", "2608.14528", 12],
    ["https://arxiv.org/pdf/2608.14528v1.pdf", "2608.14528", 1],
    ["arXiv:2608.14528v2", "2608.14528", 2],
    ["hep-th/9901001", "hep-th/9901001", null],
    ["math.GT/0309136", "math.GT/0309136", null],
    ["https://arxiv.org/abs/cs/0701188v2", "cs/0701188", 2],
  ])("%s", (text, base, version) => {
    expect(parsePaperId(text)).toEqual({ base, version });
  });

  test.each(["", "2608", "2608.14528v0", "../etc/passwd", "hep-th/99", "2608.14528v1/x", "a b"])(
    "'%s' is none",
    (text) => {
      expect(parsePaperId(text)).toBeNull();
    },
  );

  test("a file's name has no folder", () => {
    expect(fileName("hep-th/9901001")).toBe("hep-th_9901001");
  });
});

describe("queries", () => {
  test("AX-05: whole days, the last one included", () => {
    expect(submittedBetween(new Date("2024-01-01"), new Date("2024-01-07"))).toBe(
      "submittedDate:[202401010000 TO 202401072359]",
    );
    expect(within(recentQuery("AI"), 7, Date.parse("2024-01-03T23:59:00Z"))).toBe(
      "cat:cs.AI AND submittedDate:[202312270000 TO 202401032359]",
    );
  });

  test.each([
    ["all:large language model", 'all:"large language model"'],
    ["large  language\nmodel", 'all:"large language model"'],
    ["TI:transformers", "ti:transformers"],
    ['au: "de Raedt"', 'au:"de Raedt"'],
    ["all:", null],
    ['  ""', null],
  ])("%s", (text, query) => {
    expect(keywordQuery(text)).toBe(query);
  });
});
