const client = require("tollgate-client");

const { URL_TCP: tcp, URL_UNIX: unix, URL_GONE: gone } = process.env;
import("./program.mjs").then(({ play }) => play(client, { tcp, unix, gone })).then(console.log);
