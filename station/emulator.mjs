// Puts the emulator of a headset where the test of the page finds it, with its licence.
import { copyFileSync } from "node:fs";

const test = "../test/nodes/telepresence";
copyFileSync("node_modules/iwer/build/iwer.min.js", `${test}/iwer.min.js`);
copyFileSync("node_modules/iwer/LICENSE", `${test}/iwer_license.txt`);
