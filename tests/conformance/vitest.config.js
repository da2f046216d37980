import { defineConfig } from "vitest/config"

// Some of the suite's tests wait until a long-poll ends (25 s on our server) without a timeout of their own, and
// vitest's default of 5 s would fail them. They may overlap. The others may not: half a second decides in some
// of them whether a stream has expired, and the property tests keep node busy for longer than that.
export default defineConfig({
  test: {
    include: ["suite.test.js"],
    testTimeout: 60_000,
    sequence: { concurrent: process.env.CONFORMANCE_OVERLAP === "1" },
  },
})
