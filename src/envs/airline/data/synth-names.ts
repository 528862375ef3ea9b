// Words of the synthetic database. None contains a placeholder word of PRM-Lite (see `PLACEHOLDER_WORDS`): a name such
// as "Anya" would be taken for one, as it contains "any".

/** What PRM-Lite takes for a placeholder wherever it occurs in an argument (airline.md 8.2). */
export const PLACEHOLDER_WORDS = [
  "previous",
  "unknown",
  "placeholder",
  "none",
  "null",
  "n/a",
  "any",
  "some",
  "first",
  "last",
  "default",
  "example",
  "sample",
  "test",
  "dummy",
  "temp",
  "temporary",
] as const;

/** Whether PRM-Lite would take an id or name for a placeholder. */
export function looksLikePlaceholder(word: string): boolean {
  const lower = word.toLowerCase();
  return PLACEHOLDER_WORDS.some((placeholder) => lower.includes(placeholder));
}

export const FLIGHT_PREFIX = "TRS";

export const FIRST_NAMES = words(`
  Adaeze Amara Anders Beatriz Bruno Camille Caspian Clara Dario Dalia Elif Emeka Esther Farid Felix Greta Hana Henrik
  Imani Ines Ingrid Jonas Kalinda Kenji Laila Leander Lior Luz Magnus Marisol Mateo Nadia Noor Odette Oskar Paloma
  Priya Quentin Rafael Rosalind Samir Selma Soren Tariq Thea Tomas Ugo Valeria Vikram Wanda Xiomara Yelena Zahra Zeno
`);

export const LAST_NAMES = words(`
  Abara Achterberg Almeida Aziz Bergstrom Bianchi Castellano Chaudhary Dahl Delacroix Duarte Eriksen Farouk Fischer
  Gallardo Grimaldi Halvorsen Haddad Ibarra Iyer Jankowski Kaplan Kimura Kowalski Laurent Lindqvist Mbeki Moreau Nakata
  Novak Okafor Oliveira Petrov Pham Quiroga Ramanujan Reyes Rinaldi Sato Schneider Sorensen Takeda Tanaka Ueda Vargas
  Vinter Weber Xu Yamada Zielinski
`);

export const STREETS = words(`
  Alder Aspen Birchwood Bluebell Calico Cedarbrook Clover Dogwood Elderberry Fairmont Foxglove Garnet Harborview Hazel
  Ironwood Juniper Kestrel Larkspur Linden Meadowlark Mulberry Northgate Orchard Pinecrest Quarry Ridgeline Rosewood
  Saltmarsh Sycamore Tamarack Thistle Valley Walnut Willowbend
`);

export const STREET_KINDS = ["Street", "Avenue", "Lane", "Road", "Drive", "Court", "Boulevard"] as const;

/** City, state, and the three digits that its zip codes begin with. */
export const CITIES: readonly (readonly [city: string, state: string, zip: string])[] = [
  ["Albuquerque", "NM", "871"],
  ["Baltimore", "MD", "212"],
  ["Boise", "ID", "837"],
  ["Buffalo", "NY", "142"],
  ["Cincinnati", "OH", "452"],
  ["Cleveland", "OH", "441"],
  ["Fresno", "CA", "937"],
  ["Kansas City", "MO", "641"],
  ["Louisville", "KY", "402"],
  ["Madison", "WI", "537"],
  ["Memphis", "TN", "381"],
  ["Milwaukee", "WI", "532"],
  ["Omaha", "NE", "681"],
  ["Pittsburgh", "PA", "152"],
  ["Portland", "OR", "972"],
  ["Raleigh", "NC", "276"],
  ["Sacramento", "CA", "958"],
  ["Salt Lake City", "UT", "841"],
  ["Tampa", "FL", "336"],
  ["Tucson", "AZ", "857"],
];

function words(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}
