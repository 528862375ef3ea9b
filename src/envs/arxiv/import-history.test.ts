import { describe, expect, test } from "vitest";
import { importHistory, readAction } from "./import-history.ts";
import type { StepAction } from "./rewards.ts";

const call = (name: string, args = {}, well_formed = true): StepAction => ({ type: "call", name, args, well_formed });
const finish = (form: "bare" | "loose" | "wrapped"): StepAction => ({ type: "terminal", word: "FINISH", form });
const unreadable: StepAction = { type: "unreadable" };

// action, reference, project
test.each<[unknown, StepAction, StepAction]>([
  ["FINISH", finish("bare"), finish("bare")],
  [" finish ", finish("loose"), finish("bare")],
  ['{"name": "FINISH", "args": {}}', finish("wrapped"), finish("bare")],
  [{ name: "finish" }, finish("wrapped"), finish("bare")],
  ["FINISHED", unreadable, unreadable],
  ['{"name": "a", "args": {"ref": 1}}', call("a", { ref: 1 }), call("a", { ref: 1 })],
  [{ name: "a", parameters: { ref: 1 }, args: { ref: 2 } }, call("a", { ref: 1 }), call("a", { ref: 1 })],
  [{ name: "a", args: null }, call("a"), call("a")],
  [{ name: "a", args: [1] }, call("a"), call("a")], // the reference raises an exception here
  [{ args: { ref: 1 } }, call("", { ref: 1 }, false), unreadable],
  [{ name: 5, args: {} }, call("", {}, false), unreadable],
  ["{}", unreadable, unreadable],
  ["[1]", unreadable, unreadable],
  ["PARSE_ERROR", unreadable, unreadable],
  ['{"name": "a"} {"name": "b"}', unreadable, unreadable],
  [null, unreadable, unreadable],
])("action %j", (action, reference, project) => {
  expect(readAction(action, "reference")).toEqual(reference);
  expect(readAction(action, "project")).toEqual(project);
});

describe("observations", () => {
  const read = (tool: string, observation: unknown, profile: "project" | "reference") => {
    const [step] = importHistory([{ action: { name: tool, args: {} }, observation }], profile);
    const { result, tool_failed, parse_reported, answered, paper_id } = step!;
    return [result, tool_failed && "failed", parse_reported && "unread", answered && "answered", paper_id].filter(
      Boolean,
    );
  };
  const S = "get_recently_submitted_cs_papers";
  const D = "download_arxiv_pdf";
  const F = "extract_paper_figures";
  const A = "analyze_figure";

  // tool, observation, reference, project (left out: the same)
  test.each<[string, unknown, unknown[], unknown[]?]>([
    [S, "成功获取 5 篇论文", ["good"]],
    [S, [{ id: "2608.1v1", title: "x" }], ["good"]],
    [S, "未获取到任何论文记录", ["empty"]],
    [S, "[]", ["unrecognised"], ["empty"]],
    [S, "  ", ["blank"]],
    [S, null, ["blank"]],
    [S, "{'_mock_env': {'offline_fallback': True}}", ["fallback"]],
    [S, "工具执行失败: x", ["failed", "failed"]],
    [S, "Observation: Error: no such field", ["unrecognised"], ["failed", "failed"]],
    ["nope", "错误: 工具 nope 不存在", ["good", "failed"], ["failed", "failed"]],
    [S, "成功获取 1 篇论文: 错误: 工具执行失败: markers", ["failed", "failed"], ["good"]],
    [S, "成功获取 1 篇论文: 无法解析 the parser", ["failed", "unread"], ["good"]],
    [S, "成功获取 1 篇论文: offline_fallback in practice", ["fallback"], ["good"]],
    [S, "无法解析 Action", ["failed", "unread"]],
    [D, "{'paper_id': 'P1', 'status': 'READY'}", ["good", "P1"]],
    [D, { paper_id: "P1", status: "READY" }, ["good", "P1"]],
    [D, "{'paper_id': None, 'status': 'READY'}", ["good"]],
    [D, "{'paper_id': 'None', 'status': 'READY'}", ["good"]],
    [D, "已创建 task_id=t1, paper_id=2608.14543v1, status=PENDING", ["good", "2608.14543v1"]],
    [D, "fine", ["unrecognised"]],
    ["summarize_paper", "{'paper_id': 'P1', 'summary': 'x'}", ["good", "P1"]],
    ["get_paper_content", "{'paper_id': 'P1'}", ["unrecognised", "P1"]],
    [F, "{'paper_id': 'P1', 'count': 2}", ["good", "P1"]],
    [F, "{'paper_id': 'P1', 'count': 0}", ["empty", "P1"]],
    [A, '{"paper_id": "P1", "answer": "a plot"}', ["good", "answered", "P1"]],
    [A, "{'paper_id': 'P1', 'answer': 'a plot'}", ["good", "answered", "P1"]],
    [A, "{'paper_id': 'P1', 'answer': ' '}", ["good", "P1"]],
    [A, "{'paper_id': 'P1', 'answer': 'a pl", ["good", "P1"]],
    [A, "note: {'paper_id': 'P1', 'answer': 'a plot'}", ["good", "P1"]],
  ])("%s: %j", (tool, observation, reference, project = reference) => {
    expect(read(tool, observation, "reference")).toEqual(reference);
    expect(read(tool, observation, "project")).toEqual(project);
  });

  test("a terminal step has no tool to fail", () => {
    const [step] = importHistory([{ action: "ERROR", observation: "工具执行失败: llm down" }], "reference");
    expect(step!.tool_failed).toBe(false);
  });

  test("an action that can't be read is a parse failure, whether or not its record says so", () => {
    const read = (profile: "project" | "reference") =>
      importHistory([{ action: "PARSE_ERROR", observation: "?" }], profile)[0]!.parse_reported;
    expect([read("project"), read("reference")]).toEqual([true, false]);
  });
});
