from pathlib import Path

import prong
from prong.hook_call import HookResult, PreToolUseInput

OUT = Path("out").resolve()


@prong.hook(matcher="Write")
def only_out(call: PreToolUseInput) -> HookResult | None:
    if Path(call.cwd, call.tool_input["file_path"]).resolve().is_relative_to(OUT):
        return None
    return HookResult(decision="deny", reason="Only files in out are written.")


options = prong.Options(model="claude-sonnet-5-5", mode="acceptEdits", tools=["Write"])
with prong.Client(options, hooks=[only_out]) as client:
    print(client.run("Take notes.").text)
