// The app on Nest, with @nestjs/throttler on Redis as the usual limiter. The throttlers of `/usual` and `/adapter` have
// modules of their own, because a storage is a module's. Decorators are called by hand: this is no TypeScript.
import "reflect-metadata";
import { ThrottlerStorageRedisService } from "@nest-lab/throttler-storage-redis";
import { Controller, Get, Module, Req, UseGuards } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ThrottlerGuard, ThrottlerModule } from "@nestjs/throttler";
import { rateLimit } from "tollgate-client/express";
import { TollgateThrottlerStorage } from "tollgate-client/nestjs";

import { bare, host, hour, limit, port, redis, tollgate, unlimited } from "./shared.mjs";

const ok = () => ({ ok: true });
const user = (request) => request.headers["x-user"];

/** Makes a controller of these methods, each at its name. Nest keeps the route with the function, so each needs its own. */
function controller(methods, ...decorators) {
  class AppController {}
  Object.assign(AppController.prototype, methods);
  for (const name of Object.keys(methods)) {
    Req()(AppController.prototype, name, 0);
    Get(name)(AppController.prototype, name, Object.getOwnPropertyDescriptor(AppController.prototype, name));
  }
  for (const decorate of [...decorators, Controller()]) decorate(AppController);
  return AppController;
}

/** Makes a module whose routes have a throttler that counts in this storage. */
function throttled(methods, most, storage) {
  class ThrottledModule {}
  const throttlers = [{ ttl: hour, limit: most, blockDuration: 0, getTracker: user }];
  Module({
    imports: [ThrottlerModule.forRoot({ throttlers, storage })],
    controllers: [controller(methods, UseGuards(ThrottlerGuard))],
  })(ThrottledModule);
  return ThrottledModule;
}

class AppModule {
  configure(consumer) {
    consumer.apply(rateLimit(tollgate, { name: "search", by: (request) => ({ user: user(request) }), headers: true })).forRoutes("limited");
  }
}
Module({
  imports: [
    throttled({ usual: () => ok() }, unlimited, new ThrottlerStorageRedisService(redis)),
    throttled({ adapter: () => ok() }, limit, new TollgateThrottlerStorage(tollgate, { name: "adapter" })),
  ],
  controllers: [
    controller({
      free: () => ok(),
      limited: () => ok(),
      bare: async (request) => {
        await bare(user(request));
        return ok();
      },
      failures: () => tollgate.failures(),
    }),
  ],
})(AppModule);

const app = await NestFactory.create(AppModule, { logger: ["error"] });
await app.listen(port, host);
