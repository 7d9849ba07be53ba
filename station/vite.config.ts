// One script, one sheet and one page of fixed names, so that a build changes the files that are committed and adds none.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../nodes/telepresence/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    chunkSizeWarningLimit: 1500,
    rollupOptions: {
      output: {
        entryFileNames: "station.js",
        assetFileNames: "station[extname]",
        codeSplitting: false,
      },
    },
  },
});
