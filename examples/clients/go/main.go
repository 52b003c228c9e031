// Places a pod that is in etcd, waits for its node, and prints why: go run . NAMESPACE NAME UID
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

func main() {
	namespace, name, uid := os.Args[1], os.Args[2], os.Args[3]
	temporal, err := client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS")})
	check(err)
	defer temporal.Close()

	options := client.StartWorkflowOptions{
		ID:                       fmt.Sprintf("wharfinger/pod/%s/%s/%s", namespace, name, uid),
		TaskQueue:                "wharfinger/common",
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowTaskTimeout:      3 * time.Second,
	}
	input := map[string]string{"namespace": namespace, "name": name}
	run, err := temporal.ExecuteWorkflow(context.Background(), options, "ScheduleAttempt", input)
	check(err)
	var result struct{ Outcome, Node string }
	check(run.Get(context.Background(), &result))
	fmt.Println(result.Outcome, result.Node)

	address := fmt.Sprintf("%s/api/v1/pods/%s/%s/attempts", os.Getenv("PAGE"), namespace, name)
	request, err := http.NewRequest(http.MethodGet, address, nil)
	check(err)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	answer, err := http.DefaultClient.Do(request)
	check(err)
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
