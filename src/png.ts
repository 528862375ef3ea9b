import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Resvg } from "@resvg/resvg-js";

/** Fonts that come with the packages: a machine without any draws the same picture, and so does one with others. */
const fonts = join(dirname(createRequire(import.meta.url).resolve("dejavu-fonts-ttf/package.json")), "ttf");
const fontFiles = ["DejaVuSans.ttf", "DejaVuSans-Bold.ttf"].map((name) => join(fonts, name));

/** An SVG text as a PNG of this width in pixels. */
export function svgToPng(svg: string, width: number): Uint8Array {
  const picture = new Resvg(svg, {
    fitTo: { mode: "width", value: width },
    font: { fontFiles, loadSystemFonts: false, defaultFontFamily: "DejaVu Sans", sansSerifFamily: "DejaVu Sans" },
  });
  return picture.render().asPng();
}
