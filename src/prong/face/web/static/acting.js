// Acting in a session: asks its user to be let in, then answers, says and stops. Each thing that is
// done has an id of its own, so that pressing again after a broken connection does it once.

import { el, fill, inFrame } from "./dom.js";
import { visible, waiting } from "./model.js";
import { besideName, diffLines } from "./transcript.js";

// Milliseconds for which buttons of a question do nothing after they came, or moved, to where they
// are: what comes under somebody's finger is not what that finger means.
const ARMED = 700;

export function mountActing(section, source) {
  const standing = el("p", { role: "status", tabindex: "-1" });
  const again = el("button", { type: "button", on: { click: ask } }, "Act in this session");
  const questions = el("div", { class: "questions" });
  const shown = new Map();
  const message = messageForm(source);
  let refusal = "";
  fill(section, standing, again, questions, message.form);

  async function ask() {
    again.disabled = true;
    const told = await source.ask();
    // What its user decides comes by the stream; this is why nobody was even asked.
    refusal = told.type === "refused" ? told.why : "";
    refresh();
  }

  const refresh = inFrame(() => {
    const { acting, state: { session, questions: asks } } = source;
    // That a session has ended may come before that the way to act in it has: either is enough.
    const admitted = acting.state === "admitted" && session.live;
    section.hidden = acting.state === "off";
    if (section.hidden) return;
    if (admitted || acting.state === "asking") refusal = "";
    const words = source.connected === false ? ["The page's server does not answer, so that nothing can be done here now."]
      : standWords(refusal ? { state: "refused", why: refusal } : acting, session, asks);
    // Only what is new is put there: a screen reader says it each time.
    if (words.map(textOf).join("") !== standing.textContent) fill(standing, ...words);
    again.hidden = admitted || acting.state === "asking" || !session.live;
    again.disabled = false;
    message.form.hidden = !admitted;
    message.refresh();
    const open = new Map((admitted ? asks : []).map((asked) => [asked.seq, asked]));
    for (const [seq, { form }] of shown) {
      if (open.has(seq)) continue;
      // Who answered by keyboard goes on from here, and not from the top of the page.
      if (form.contains(document.activeElement)) standing.focus();
      form.remove();
      shown.delete(seq);
      for (const other of shown.values()) other.arm();
    }
    for (const [seq, asked] of open) {
      if (shown.has(seq)) continue;
      const made = asked.type === "question_asked" ? questionForm(source, asked) : permissionForm(source, asked);
      shown.set(seq, made);
      questions.append(made.form);
    }
  });
  return { refresh };
}

const textOf = (part) => (typeof part === "string" ? part : part.textContent);

function standWords({ state, code, why }, session, asks) {
  if (!session.live) {
    return ["Nobody runs this session, so that nothing can be done in it. ", el("kbd", {}, `prong --resume ${session.id}`), " goes on with it."];
  }
  switch (state) {
    case "asking":
      if (!code) return ["The session's own terminal is being asked whether this page may act."];
      return ["The session's own terminal asks whether this page may act. It must show the code ", el("code", {}, code), "; answer there."];
    case "admitted":
      return [asks.length ? `${waiting(asks)}.` : "This page may act in the session. No question waits."];
    case "refused": case "lost":
      return [`This page cannot act in the session: ${why}.`];
    default:
      return ["This page can act in the session once its user agrees, in the session's own terminal."];
  }
}

// One thing that can be done: sends it, and says what came of it. While nobody knows what came of it,
// it keeps its id, so that the same pressed again is the same.
function deeds(source, outcome, enable) {
  const ids = new Map();
  return async (command, asked) => {
    const name = JSON.stringify([command, asked]);
    const id = ids.get(name) || crypto.randomUUID();
    ids.set(name, id);
    enable(false);
    outcome.className = "outcome";
    outcome.textContent = "…";
    const told = await source.act(id, command, asked);
    if (told.type !== "unknown") ids.delete(name);
    outcome.classList.add(told.type);
    outcome.textContent = told.type === "accepted" ? told.text || "done" : told.why;
    if (told.type !== "accepted" || command.type !== "answer") enable(true);
    return told.type === "accepted";
  };
}

function asking(source, asked, name, build) {
  const outcome = el("p", { class: "outcome", role: "status" });
  const form = el("form", { "aria-label": name, on: { submit: (event) => event.preventDefault() } });
  let [free, armed] = [true, 0];
  const show = () => {
    for (const each of form.querySelectorAll("button")) each.disabled = !free || armed > 0;
    for (const each of form.querySelectorAll("input")) each.disabled = !free;
  };
  const send = deeds(source, outcome, (may) => {
    free = may;
    show();
  });
  // A form that was accepted stays shut: it goes once the session has told that this is settled.
  const give = (more) => send({ type: "answer", request_id: asked.request_id, ...more }, asked.seq);
  const arm = () => {
    armed += 1;
    show();
    setTimeout(() => {
      armed -= 1;
      show();
    }, ARMED);
  };
  fill(form, ...build(give), outcome);
  arm();
  return { form, arm };
}

const button = (name, act) => el("button", { type: "button", on: { click: act } }, name);
const said = (asked) => (asked.agent === "main" ? "" : `${visible(asked.agent)}: `);

function permissionForm(source, asked) {
  return asking(source, asked, `Permission for ${asked.tool}`, (give) => {
    const why = el("input", { type: "text", maxlength: "4000", "aria-label": asked.plan ? "What to change" : "Why not", placeholder: asked.plan ? "what to change" : "why not" });
    const yes = asked.plan
      ? [button("Yes", () => give({})), button("Yes, and accept edits", () => give({ mode: "acceptEdits" }))]
      : [button("Yes", () => give({})),
        asked.suggestion?.length ? button("For the session", () => give({ remember: "session" })) : null,
        asked.file ? button("Always", () => give({ remember: "project" })) : null];
    return [
      el("strong", {}, `${said(asked)}may it? ${visible(asked.tool)}: ${visible(besideName({ name: asked.tool, title: asked.title }))}`), el("p", {}, visible(asked.why)),
      asked.plan ? el("pre", {}, visible(asked.plan)) : null,
      asked.preview ? el("pre", {}, ...diffLines(visible(asked.preview))) : null,
      asked.arguments ? el("details", {}, el("summary", {}, "the call's arguments"), el("pre", {}, visible(asked.arguments))) : null,
      asked.suggestion?.length ? el("p", { class: "note" }, `For the session allows ${visible(asked.suggestion.join(", "))}${asked.file ? `; Always stores that in ${visible(asked.file)}` : ""}.`) : null,
      el("div", { class: "buttons" }, yes, button("No", () => give({ allow: false, text: why.value }))), why,
    ];
  });
}

function questionForm(source, asked) {
  return asking(source, asked, "Question", (give) => {
    const parts = asked.questions.map((question, number) => {
      const own = el("input", { type: "text", maxlength: "4000", "aria-label": `Own answer to: ${question.question}`, placeholder: "in words of your own" });
      const picks = (question.options || []).map((option) => ({ option,
        input: el("input", { type: question.multiple ? "checkbox" : "radio", name: `q${asked.seq}-${number}` }) }));
      const field = el("fieldset", {}, el("legend", {}, `${said(asked)}${visible(question.question)}`),
        picks.map(({ option, input }) => el("label", {}, input, ` ${visible(option.label)}`, option.description ? el("small", {}, ` ${visible(option.description)}`) : null)), own);
      const answer = () => own.value.trim() || picks.filter(({ input }) => input.checked).map(({ option }) => option.label).join(", ");
      return { field, answer };
    });
    return [parts.map(({ field }) => field), el("div", { class: "buttons" },
      button("Answer", () => {
        const answers = parts.map(({ answer }) => answer().replace(/\s+/g, " "));
        const empty = answers.findIndex((each) => !each);
        if (empty < 0) give({ text: answers.join("\n") });
        else parts[empty].field.querySelector("input").focus();
      }),
      button("Refuse", () => give({ allow: false })))];
  });
}

// A message to an agent, and what stops one.
function messageForm(source) {
  const outcome = el("p", { class: "outcome", role: "status" });
  const to = el("select", { "aria-label": "For which agent", on: { change: () => refresh() } });
  const text = el("textarea", { rows: "2", maxlength: "100000", "aria-label": "Message", placeholder: "a message" });
  const stop = button("Stop", () => send(to.value ? { type: "stop", task_id: to.value } : { type: "interrupt" }));
  const form = el("form", { class: "message", "aria-label": "Message", on: { submit: async (event) => {
    event.preventDefault();
    const words = text.value.trim();
    if (!words) return;
    if (await send(to.value ? { type: "tell", to: to.value, text: words } : { type: "say", text: words })) {
      if (text.value.trim() === words) text.value = "";
    }
  } } }, text, el("div", { class: "buttons" }, to, el("button", { type: "submit" }, "Send"), stop), outcome);
  const send = deeds(source, outcome, (may) => {
    for (const each of form.querySelectorAll("button")) each.disabled = !may;
  });
  let known = null;

  function refresh() {
    const agents = [...source.state.agents.values()].filter((agent) => agent.task);
    const now = agents.map((agent) => `${agent.task} ${agent.title}`).join("\n");
    if (now !== known) {
      known = now;
      const chosen = to.value;
      fill(to, el("option", { value: "" }, "main"), agents.map((agent) =>
        el("option", { value: agent.task }, `${agent.task} ${agent.title}`.slice(0, 60))));
      to.value = agents.some((agent) => agent.task === chosen) ? chosen : "";
    }
    stop.textContent = to.value ? `Stop ${to.value}` : "Stop the turn";
  }

  return { form, refresh };
}
