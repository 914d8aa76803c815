// A project without the types of Node, which also checks the types of its packages. It is only compiled.
import { Tollgate, type Decision } from "tollgate-client";
import { FakeTollgate } from "tollgate-client/testing";

const tollgate: Tollgate = new FakeTollgate();
export const decision: Decision = await tollgate.check("search", { user: "alice" });
