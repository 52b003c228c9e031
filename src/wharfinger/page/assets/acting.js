// Actions, where they are allowed: what will happen, a reason, and the name again as a confirmation.

import { h, replace } from "./dom.js";
import { post } from "./live.js";

// `effect`: what will happen, a sentence or none; `fields`: more fields of the form, as [name, label, value or list of choices]; `fixed`: those that are not asked for.
export function act({ title, name, path, effect = "", fields = [], fixed = {}, done }) {
  const said = h("p", { class: "problem", role: "alert", hidden: true });
  const reason = h("input", { type: "text", maxlength: "200", required: true, autocomplete: "off" });
  const confirm = h("input", { type: "text", required: true, autocomplete: "off", placeholder: name });
  const inputs = fields.map(([key, label, value]) => [key, label, Array.isArray(value) ? h("select", {}, value.map((one) => h("option", { value: one }, one))) : h("input", { type: "text", required: true, value })]);
  const send = h("button", { class: "button primary", type: "submit" }, title);
  const dialog = h("dialog", { "aria-label": title });
  const form = h("form", { class: "form", onsubmit: async (event) => {
    event.preventDefault();
    send.disabled = true;
    try {
      const more = Object.fromEntries(inputs.map(([key, , input]) => [key, input.value]));
      const answer = await post(path, { reason: reason.value, confirm: confirm.value, ...fixed, ...more });
      dialog.close();
      done(answer.sentence);
    } catch (error) {
      said.hidden = false;
      replace(said, error.message);
      send.disabled = false;
    }
  } }, h("h1", {}, title), effect ? h("p", { class: "effect" }, effect) : null, inputs.map(([, label, input]) => h("label", { class: "form", style: { gap: "4px" } }, label, input)),
  h("label", { class: "form", style: { gap: "4px" } }, "Reason, for the history", reason), h("label", { class: "form", style: { gap: "4px" } }, `Write ${name} to confirm`, confirm), said,
  h("div", { class: "chips" }, send, h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Cancel")));
  dialog.append(form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
