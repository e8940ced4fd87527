// An edited request as it would be sent, before it is: what was changed, and what it may cost.
import { arm } from "../consent/arming.js";
import { watchTexts } from "../consent/seen.js";
import { problem } from "../decisions.js";
import { lost, parsed } from "../places.js";
import { fields, post } from "../session.js";

let previewed = 0;

// What is typed after it is not in it, and would not be sent: it has to be asked for anew.
export function dropPreview() {
  previewed += 1;
  document.getElementById("preview")?.replaceChildren();
}

export async function preview(form) {
  const mine = ++previewed;
  const late = () => mine !== previewed || !form.isConnected;
  try {
    const answer = await post(form.getAttribute("action"), fields(form));
    if (!answer.ok) {
      const told = await answer.json();
      return late() ? undefined : problem(form, [told.problem, told.detail].filter(Boolean).join(" "));
    }
    const found = parsed(await answer.text()).getElementById("preview");
    if (late()) return;
    problem(form, "");
    document.getElementById("preview").replaceWith(document.adoptNode(found));
    watchTexts();
    arm(found);
    found.scrollIntoView({ block: "start" });
    found.querySelector("h2").focus({ preventScroll: true });
  } catch (error) {
    lost(error);
  }
}
