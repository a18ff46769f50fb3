// A local and a joint round by a client that openapi-typescript typed (test_generated_clients.py).
// It writes the policy as a line, reads the report of a person as a line, and writes what it saw.
import { createInterface } from "node:readline/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.d.ts";

type Report = components["schemas"]["Report"];

async function round(address: string, device: string, client: string, auditor: string) {
  const as = (token: string) =>
    createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${token}` } });
  const input = createInterface({ input: process.stdin });
  const local = { params: { path: { study: "local" } } };
  const joint = { params: { path: { study: "joint" } } };

  const facts = await as(device).GET("/v1/studies/{study}", local);
  const terms = await as(device).GET("/v1/studies/{study}/terms", local);
  const policy = await as(device).GET("/v1/studies/{study}/policy", local);
  console.log(JSON.stringify(policy.data));
  const report: Report = JSON.parse((await input[Symbol.asyncIterator]().next()).value);
  input.close();
  const receipt = await as(device).POST("/v1/studies/{study}/reports", {
    ...local,
    body: { reports: [report] },
  });
  const decision = await as(client).POST("/v1/studies/{study}/decisions", {
    ...joint,
    body: { context: [[0.1], [0.9]] },
  });
  const id: string = decision.data!.id;
  const reward = await as(client).POST("/v1/studies/{study}/decisions/{decision}/reward", {
    params: { path: { study: "joint", decision: id } },
    body: { reward: 1.0 },
  });
  const certificate = await as(auditor).GET("/v1/studies/{study}/certificate", joint);
  const refused = await as(device).GET("/v1/studies/{study}/ledger", local);
  console.log(
    JSON.stringify({
      epsilon: facts.data!.epsilon,
      terms: [facts.data!.terms_sha256, terms.data!.sha256],
      stored: receipt.data!.stored,
      arm: decision.data!.arm,
      new: reward.data!.new,
      promised: certificate.data!.guarantee.epsilon,
      refused: refused.error!.error,
    }),
  );
}

const [address, device, client, auditor] = process.argv.slice(2);
round(address, device, client, auditor);
