import * as client from "tollgate-client";

import { play } from "./program.mjs";

const { URL_TCP: tcp, URL_UNIX: unix, URL_GONE: gone } = globalThis.process.env;
console.log(await play(client, { tcp, unix, gone }));
