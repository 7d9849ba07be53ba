// Puts the emulator of a headset where the tests of the page find it, with the licences of what it contains.
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";

const test = "../test/nodes/telepresence";
const licences = ["iwer/LICENSE", "gl-matrix/LICENSE.md", "webxr-layers-polyfill/LICENSE"];
copyFileSync("node_modules/iwer/build/iwer.min.js", `${test}/iwer.min.js`);
const texts = licences.map((name) => `== ${name}\n\n${readFileSync(`node_modules/${name}`, "utf8").trim()}\n`);
writeFileSync(`${test}/iwer_license.txt`, texts.join("\n"));
