import { ApiError, type Entry, FeedError, parseFeed } from "./atom.ts";
import { BuildStopped, bodyText, Fault, type Http } from "./http.ts";

// Searches of the arXiv API, page by page.

/** A page of 100 papers is about 300 kB. */
const LARGEST_FEED_BYTES = 64 * 1024 * 1024;

export interface Search {
  query: string;
  sort_by: "submittedDate" | "relevance";
  /** Papers at most. */
  limit: number;
}

/**
 * The papers of a search in its order, each once. A page that comes back empty before the end is asked for again, as is
 * an empty first page: the API gives both now and then.
 * @param base_url As `https://export.arxiv.org`.
 * @param page_size Papers a request.
 * @throws BuildStopped where a page can't be had
 */
export async function searchPapers(
  http: Http,
  base_url: string,
  search: Search,
  page_size: number,
  name: string,
): Promise<Entry[]> {
  const found = new Map<string, Entry>();
  let total = Number.POSITIVE_INFINITY;
  for (let start = 0; start < Math.min(total, search.limit); ) {
    const page = await askFeed(
      http,
      `${base_url}/api/query?${new URLSearchParams({
        search_query: search.query,
        start: String(start),
        max_results: String(Math.min(page_size, search.limit - start)),
        sortBy: search.sort_by,
        sortOrder: "descending",
      })}`,
      `${name}, from ${start}`,
      (feed) => {
        if (feed.entries.length > 0) return;
        const so_far = feed.total > 0 ? `${start} of ${feed.total} papers came so far` : "no paper was found";
        throw new Fault(`the page came back empty: ${so_far}`);
      },
    );
    for (const entry of page.entries) if (!found.has(entry.paper.id)) found.set(entry.paper.id, entry);
    start += page.entries.length;
    total = page.total;
  }
  return [...found.values()].slice(0, search.limit);
}

/** The papers of these ids that arXiv has, in one request. */
export async function papersById(http: Http, base_url: string, ids: readonly string[]): Promise<Entry[]> {
  const parameters = new URLSearchParams({ id_list: ids.join(","), max_results: String(ids.length) });
  const { entries } = await askFeed(http, `${base_url}/api/query?${parameters}`, `papers ${ids.join(", ")}`, () => {});
  return entries;
}

function askFeed(http: Http, url: string, what: string, check: (feed: ReturnType<typeof parseFeed>) => void) {
  return http.ask({
    url,
    what,
    headers: () => ({ accept: "application/atom+xml" }),
    async read(answer) {
      const text = await bodyText(answer, LARGEST_FEED_BYTES);
      const type = answer.header("content-type") ?? "";
      try {
        if (!/xml/i.test(type)) throw new FeedError(`it is '${type}', not a feed`);
        const feed = parseFeed(text);
        if (answer.status !== 200) throw new FeedError(`HTTP ${answer.status}`);
        check(feed);
        return feed;
      } catch (error) {
        if (error instanceof ApiError) throw new BuildStopped(`${what}: the arXiv API refuses: ${error.message}`);
        if (!(error instanceof FeedError)) throw error;
        // A refusal won't pass; a broken feed may.
        if (answer.status >= 400) throw new BuildStopped(`${what}: HTTP ${answer.status} (${url}).`);
        throw new Fault(error.message);
      }
    },
  });
}
