// A Nest app whose throttlers count in the service. Decorators are called by hand: this is no TypeScript.
import "reflect-metadata";
import { Controller, Get, Module } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { SkipThrottle, Throttle, ThrottlerGuard, ThrottlerModule } from "@nestjs/throttler";
import { Tollgate } from "tollgate-client";
import { TollgateThrottlerStorage } from "tollgate-client/nestjs";

const tollgate = new Tollgate({ timeout: Number(process.env.TIMEOUT ?? 250) });
const hour = 3_600_000;

class AppController {
  search() {
    return { found: 1 };
  }
  login() {
    return "welcome";
  }
  blocking() {
    return "for a second";
  }
  windowed() {
    return "until its window ends";
  }
  failures() {
    return tollgate.failures();
  }
}

function route(method, ...decorators) {
  const descriptor = Object.getOwnPropertyDescriptor(AppController.prototype, method);
  for (const decorate of [Get(method), ...decorators]) decorate(AppController.prototype, method, descriptor);
}

route("search");
route("login", Throttle({ default: { limit: 1 } }));
route("blocking", Throttle({ default: { limit: 1, blockDuration: 1000 } }));
route("windowed", Throttle({ default: { limit: 1, blockDuration: 0 } }));
route("failures", SkipThrottle());
Controller()(AppController);

class AppModule {}
Module({
  imports: [
    ThrottlerModule.forRoot({
      throttlers: [{ ttl: hour, limit: Number(process.env.LIMIT ?? 2), getTracker: (request) => request.headers["x-user"] ?? request.ip }],
      storage: new TollgateThrottlerStorage(tollgate, { name: "nest", onFailure: process.env.ON_FAILURE }),
    }),
  ],
  controllers: [AppController],
  providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
})(AppModule);

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(0, "127.0.0.1");
console.log(`listening on ${await app.getUrl()}`);
