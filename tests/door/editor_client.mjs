// Drives `prong acp` with the official TypeScript client, and prints what it saw as one JSON object.
//
//     node editor_client.mjs SDK FOLDER PROGRAM [WORD ...]
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

const [sdk, cwd, program, ...words] = process.argv.slice(2);
const acp = await import(pathToFileURL(`${sdk}/dist/v1/unstable/acp.js`));
const { agent, client } = acp.methods;

const child = spawn(program, words, { cwd, stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const updates = [];
const asked = [];

const text = (session) =>
  updates
    .filter((one) => one.sessionId === session && one.update.sessionUpdate === "agent_message_chunk")
    .map((one) => one.update.content.text)
    .join("");
const say = (ctx, sessionId, words) =>
  ctx.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });
const until = async (condition) => {
  while (!condition()) await sleep(20);
};

const seen = await acp
  .client({ name: "a test" })
  .onNotification(client.session.update, ({ params }) => {
    updates.push(params);
  })
  .onRequest(client.session.requestPermission, ({ params }) => {
    asked.push(params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onRequest(client.elicitation.create, ({ params }) => {
    asked.push(params.message);
    return { action: "accept", content: { answer1: "Blue" } };
  })
  .connectWith(stream, async (ctx) => {
    const begun = await ctx.request(agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {
        subagents: {},
        elicitation: { form: {} },
        session: { notices: {}, compaction: {} },
      },
    });
    const open = async () => (await ctx.request(agent.session.new, { cwd, mcpServers: [] })).sessionId;
    const [one, two, three] = [await open(), await open(), await open()];

    // Three at once: one that asks and splits itself, one that is stopped, one that has a question.
    const stopped = say(ctx, two, "work slowly");
    const answers = [say(ctx, one, "split it"), say(ctx, three, "ask me")];
    await until(() => existsSync(`${cwd}/begun`));
    await ctx.notify(agent.session.cancel, { sessionId: two });
    const stops = [await stopped, ...(await Promise.all(answers))].map((each) => each.stopReason);

    const copy = (await ctx.request(agent.session.fork, { sessionId: three, cwd })).sessionId;
    const forked = await say(ctx, copy, "in the copy");
    await ctx.request(agent.session.close, { sessionId: two });
    const listed = await ctx.request(agent.session.list, { cwd });
    const before = updates.length;
    await ctx.request(agent.session.load, { sessionId: two, cwd, mcpServers: [] });
    const loaded = updates.slice(before).map((each) => each.update.sessionUpdate);
    await ctx.request(agent.session.setMode, { sessionId: three, modeId: "acceptEdits" });
    return {
      agent: begun.agentInfo.name,
      stops,
      forked: forked.stopReason,
      listed: listed.sessions.length,
      loaded,
      texts: { one: text(one), three: text(three), copy: text(copy) },
      children: [...new Set(updates.map((each) => each.sessionId))].filter((id) => id.includes(":")),
      kinds: [...new Set(updates.map((each) => each.update.sessionUpdate))],
    };
  });
child.stdin.end();
const code = await new Promise((resolve) => child.on("exit", resolve));
console.log(JSON.stringify({ ...seen, asked, code }));
