// Reads what Python's `repr` writes of plain data: `{'paper_id': 'P1', 'ok': True, 'pages': (1, 2)}`.

/**
 * Dicts become objects, lists and tuples arrays, None null. undefined: the text is anything else, or goes on after it.
 * No numbers beyond JSON's, no bytes, sets or string prefixes.
 */
export function parsePythonLiteral(text: string): unknown {
  let at = 0;
  const FAIL = Symbol("fail");

  function skip(): void {
    while (/\s/.test(text[at] ?? "")) at++;
  }

  function take(token: string): boolean {
    skip();
    if (!text.startsWith(token, at)) return false;
    at += token.length;
    return true;
  }

  function value(depth: number): unknown {
    skip();
    if (depth > 100) return FAIL;
    const start = text[at];
    if (start === "{") return dict(depth);
    if (start === "[") return items("[", "]", depth);
    if (start === "(") return items("(", ")", depth);
    if (start === "'" || start === '"') return string();
    for (const [word, meaning] of [
      ["None", null],
      ["True", true],
      ["False", false],
    ] as const) {
      if (take(word)) return meaning;
    }
    const number = /^-?\d+(\.\d+)?(e[+-]?\d+)?/i.exec(text.slice(at, at + 40))?.[0];
    if (number === undefined) return FAIL;
    at += number.length;
    return Number(number);
  }

  function items(open: string, close: string, depth: number): unknown {
    take(open);
    const found: unknown[] = [];
    while (!take(close)) {
      const item = value(depth + 1);
      if (item === FAIL) return FAIL;
      found.push(item);
      if (!take(",")) return take(close) ? found : FAIL;
    }
    return found;
  }

  function dict(depth: number): unknown {
    take("{");
    const entries: [string, unknown][] = [];
    while (!take("}")) {
      const key = value(depth + 1);
      if (key === FAIL || !take(":")) return FAIL;
      const item = value(depth + 1);
      if (item === FAIL) return FAIL;
      entries.push([String(key), item]);
      if (!take(",")) return take("}") ? Object.fromEntries(entries) : FAIL;
    }
    return Object.fromEntries(entries);
  }

  function string(): unknown {
    const quote = text[at++];
    let read = "";
    while (at < text.length) {
      const char = text[at++]!;
      if (char === quote) return read;
      if (char === "\n") return FAIL;
      read += char === "\\" ? escaped() : char;
    }
    return FAIL;
  }

  function escaped(): string {
    const char = text[at++] ?? "";
    const digits = { x: 2, u: 4, U: 8 }[char];
    if (digits !== undefined) {
      const code = Number.parseInt(text.slice(at, at + digits), 16);
      at += digits;
      return code >= 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
    }
    return (
      ({ n: "\n", t: "\t", r: "\r", "\\": "\\", "'": "'", '"': '"' } as Record<string, string>)[char] ?? `\\${char}`
    );
  }

  const parsed = value(0);
  skip();
  return parsed === FAIL || at < text.length ? undefined : parsed;
}
