// The whole public suite against one running server; test_conformance.py starts it and reads the JSON report.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

const baseUrl = process.env.CONFORMANCE_TEST_URL
if (!baseUrl) throw new Error("CONFORMANCE_TEST_URL names the server to test")

runConformanceTests({
  baseUrl,
  longPollTimeoutMs: 60_000, // how long its long-poll tests may take; the server answers after 25 s
  subscriptions: process.env.CONFORMANCE_SUBSCRIPTIONS === "1",
})
