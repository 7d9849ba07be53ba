// After a build: what the page was built from and of which files it consists (built.json), and the licence of what it contains.
// test/nodes/telepresence/test_page_files.py computes the same without Node.
import { createHash } from "node:crypto";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SOURCES = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "seal.mjs"];
const page = "../nodes/telepresence/page";

const hash = (data) => createHash("sha256").update(data).digest("hex");

// Each file as "<sha256>  <name>\n", in the order of their names.
const listed = (folder, names) => names.map((name) => `${hash(readFileSync(join(folder, name)))}  ${name}\n`).join("");

const sources = [...SOURCES, ...readdirSync("src").map((name) => `src/${name}`)].sort();
copyFileSync("node_modules/three/LICENSE", join(page, "three_license.txt"));
const files = readdirSync(page).filter((name) => name !== "built.json").sort();
const built = { sources: hash(listed(".", sources)), files: hash(listed(page, files)) };
writeFileSync(join(page, "built.json"), `${JSON.stringify(built, null, 2)}\n`);
