import * as client from "tollgate-client";

import { play } from "./program.mjs";

export default {
  async fetch(_request, { URL_TCP: tcp, URL_GONE: gone }) {
    try {
      return new Response(await play(client, { tcp, gone }));
    } catch (error) {
      return new Response(error.stack, { status: 500 });
    }
  },
};
