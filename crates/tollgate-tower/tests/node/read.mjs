// Asks a service, once for each line it is to print: what a parser that is not ours reads of each answer.
//
//     node read.mjs http://127.0.0.1:8080/ 6 1700000058400
//
// The last argument is the time by the service's clock, in milliseconds: the parser adds to it.
import { parseRateLimit } from 'ratelimit-header-parser'

const [url, answers, now] = process.argv.slice(2)

globalThis.Date = class extends Date {
  constructor(...parts) {
    super(...(parts.length === 0 ? [Number(now)] : parts))
  }
}

for (let answer = 0; answer < Number(answers); answer += 1) {
  const response = await fetch(url)
  console.log(JSON.stringify({ status: response.status, ...parseRateLimit(response) }))
}
