"""The Python side of Trestle: tokens and tensors. Everything with meaning (tasks, tools, rewards) is TypeScript's."""
