import { DurableStreamTestServer, FileBackedStreamStore } from "@durable-streams/server"

// The server keeps 100 files open by default and loses appends (404, missing bytes) when more streams than
// that are written concurrently. Its store takes the number, the server's options do not.
const MAX_FILE_HANDLES = 200_000

const [port, dataDir] = process.argv.slice(2)
if (!port || !dataDir) {
  console.error("usage: node node_server.mjs PORT DATA_DIR")
  process.exit(2)
}

const server = new DurableStreamTestServer({ host: "127.0.0.1", port: Number(port) })
server.store = new FileBackedStreamStore({ dataDir, maxFileHandles: MAX_FILE_HANDLES })
await server.start()
console.log(`listening on port ${port}, data in files`)

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, async () => {
    await server.stop()
    process.exit(0)
  })
}
