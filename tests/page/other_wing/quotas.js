// Quotas: all of them, or one.

import { h, replace } from "../../../page/assets/dom.js";
import { get } from "../../../page/assets/live.js";
import { crumbs } from "../../../page/assets/app.js";

export function open({ node, names }) {
  crumbs("Quotas");
  get("/api/v1/quotas").then(({ quotas }) => replace(node, h("h1", {}, names.quota ?? `Quotas: ${quotas.join(", ")}`)));
  return { topics: [] };
}
