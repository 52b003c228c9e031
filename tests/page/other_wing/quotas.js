// Quotas: all of them, or one.

import { h, replace } from "../../../page/assets/dom.js";
import { get, paced } from "../../../page/assets/live.js";
import { crumbs } from "../../../page/assets/app.js";

export function open({ node, names }) {
  const show = ({ quotas }) => replace(node, h("h1", {}, names.quota ?? `Quotas: ${quotas.join(", ")}`));
  crumbs("Quotas");
  paced(async () => show(await get("/api/v1/quotas")))();
  return { topics: ["quotas"], heard(name, now) { if (name === "quotas") show(now); } };
}
