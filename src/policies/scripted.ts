import type { TaskSet } from "../core/env.ts";
import type { Policy } from "../core/policy.ts";
import { createRandom } from "../core/random.ts";

const AT_A_TIME = 16;

/** One of an environment's own policies, whose replies are known in advance. Each (task, trial) has a stream of its own. */
export function scriptedPolicy(name: string, tasks: TaskSet, seed: number): Policy {
  return {
    name,
    parallel: AT_A_TIME,
    remote: false,
    start({ task_id, trial }) {
      const random = createRandom(`${seed}/${task_id}/${trial}`).fork("policy");
      const replies = tasks.replies(name, task_id, random).values();
      return {
        async reply() {
          const { done, value } = replies.next();
          return done ? { ended: "the policy has no more replies" } : { text: value };
        },
        tokens: () => ({ prompt: 0, policy: 0, observation: 0 }),
        metrics: () => ({}),
      };
    },
  };
}
