// Places a pod that is in etcd, waits for its node, and prints why: npx tsx start.ts NAMESPACE NAME UID
import { Client, Connection } from "@temporalio/client";

const [namespace, name, uid] = process.argv.slice(2);
const { TEMPORAL_ADDRESS, PAGE, TOKEN } = process.env;

const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
const result = await new Client({ connection }).workflow.execute("ScheduleAttempt", {
  workflowId: `wharfinger/pod/${namespace}/${name}/${uid}`,
  taskQueue: "wharfinger/common",
  workflowIdConflictPolicy: "USE_EXISTING",
  workflowTaskTimeout: "3s",
  args: [{ namespace, name }],
});
console.log(result.outcome, result.node);

const answer = await fetch(`${PAGE}/api/v1/pods/${namespace}/${name}/attempts`, {
  headers: { Authorization: `Bearer ${TOKEN}` },
});
console.log(await answer.text());
await connection.close();
